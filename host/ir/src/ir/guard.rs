//! Rules that a model's answer keeps to: one that does not is rewritten before anybody sees it.

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

/// The text in the place of an answer that a rule withholds, unless the rule has its own.
pub const WITHHELD: &str = "The answer was withheld: it breaks a rule of its prompt.";

/// The most memory of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// One rule. Declaring it enforces it (PromptPack RFC 0015).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Guard {
    /// As the document names it.
    pub name: String,
    /// The rule that the answer must keep.
    #[serde(flatten)]
    pub rule: GuardRule,
    /// The text in the answer's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The property of an answer that a rule checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum GuardRule {
    /// None of these words, in any case; an answer that has one is replaced.
    BannedWords {
        /// Whole words.
        words: Vec<String>,
    },
    /// At most this many characters; a longer answer is cut.
    MaxLength {
        /// Unicode scalar values.
        characters: usize,
    },
    /// At most this many sentences; a longer answer is cut.
    MaxSentences {
        /// Sentences that are kept, from the first.
        sentences: usize,
    },
    /// Text that a pattern matches somewhere; any other answer is replaced.
    Matches {
        /// A regular expression without look-around.
        pattern: String,
    },
    /// Text that a pattern matches nowhere; any other answer is replaced.
    MatchesNot {
        /// A regular expression without look-around.
        pattern: String,
    },
}

impl Guard {
    /// Rewrites the answer; returns `None` when it keeps to the rule. A pattern that does not compile withholds
    /// everything.
    #[must_use]
    pub fn rewrite(&self, answer: &str) -> Option<String> {
        let replaced = || self.message.clone().unwrap_or_else(|| WITHHELD.to_owned());
        match &self.rule {
            GuardRule::BannedWords { words } => {
                let lower = answer.to_lowercase();
                words.iter().any(|word| has_word(&lower, &word.to_lowercase())).then(replaced)
            }
            GuardRule::MaxLength { characters } => {
                let (end, _) = answer.char_indices().nth(*characters)?;
                answer.get(..end).map(str::to_owned)
            }
            GuardRule::MaxSentences { sentences } => {
                let end = nth_end(answer, *sentences)?;
                answer.get(..end).filter(|cut| cut.trim() != answer.trim()).map(str::to_owned)
            }
            GuardRule::Matches { pattern } => match compile(pattern) {
                Ok(pattern) if pattern.is_match(answer) => None,
                _ => Some(replaced()),
            },
            GuardRule::MatchesNot { pattern } => match compile(pattern) {
                Ok(pattern) if !pattern.is_match(answer) => None,
                _ => Some(replaced()),
            },
        }
    }
}

/// A pattern of a rule.
///
/// # Errors
/// Why it is none, or that it would take too much memory.
pub fn compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
}

/// Returns the end of the nth sentence.
fn nth_end(text: &str, n: usize) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    let mut ended = 0;
    while let Some((at, c)) = chars.next() {
        let closes = matches!(c, '.' | '!' | '?') && chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        if closes {
            ended += 1;
            if ended >= n {
                return Some(at + c.len_utf8());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(rule: GuardRule) -> Guard {
        Guard { name: "g".to_owned(), rule, message: Some("No.".to_owned()) }
    }

    #[test]
    fn a_banned_word_replaces_the_answer_whatever_its_case_and_only_as_a_whole_word() {
        let rule = guard(GuardRule::BannedWords { words: vec!["Ass".to_owned(), "très mal".to_owned()] });
        assert_eq!(rule.rewrite("What an ASS!"), Some("No.".to_owned()));
        assert_eq!(rule.rewrite("C'est Très mal, non?"), Some("No.".to_owned()));
        assert_eq!(rule.rewrite("A class of its own"), None);
        assert_eq!(Guard { message: None, ..rule }.rewrite("ass").as_deref(), Some(WITHHELD));
    }

    #[test]
    fn an_answer_that_is_too_long_is_cut_where_its_measure_ends() {
        assert_eq!(guard(GuardRule::MaxLength { characters: 3 }).rewrite("héé!"), Some("héé".to_owned()));
        assert_eq!(guard(GuardRule::MaxLength { characters: 4 }).rewrite("héé!"), None);
        let two = guard(GuardRule::MaxSentences { sentences: 2 });
        assert_eq!(two.rewrite("One. Two at 3.5! Three?"), Some("One. Two at 3.5!".to_owned()));
        assert_eq!(two.rewrite("One. Two."), None);
        assert_eq!(two.rewrite("no end"), None);
    }

    #[test]
    fn a_pattern_must_match_and_a_broken_one_lets_nothing_through() {
        let digits = guard(GuardRule::Matches { pattern: r"^\d+$".to_owned() });
        assert_eq!((digits.rewrite("42"), digits.rewrite("forty")), (None, Some("No.".to_owned())));
        assert_eq!(guard(GuardRule::Matches { pattern: "(".to_owned() }).rewrite("x"), Some("No.".to_owned()));
        let secret = guard(GuardRule::MatchesNot { pattern: r"(?i)\brouting number\b".to_owned() });
        assert_eq!(secret.rewrite("Hello."), None);
        assert_eq!(secret.rewrite("The Routing Number is 7."), Some("No.".to_owned()));
        assert_eq!(guard(GuardRule::MatchesNot { pattern: "(".to_owned() }).rewrite("x"), Some("No.".to_owned()));
    }
}
