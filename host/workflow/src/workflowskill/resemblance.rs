//! Markdown that was meant as a WorkflowSkill and is none: its fence is spelled otherwise, is not closed, or is
//! missing.
//!
//! The reference refuses such a document ("No ```workflow fenced code block found"). Read as a prompt, it would be sent
//! to a model with every tool of the project, so [`find`] looks for it before a text is taken for one. Fences are read
//! more widely than CommonMark has them: in lists, quotes and indented, with two backticks, with any info string.

use super::extract;
use opcell_ir::source::Span;
use opcell_yaml::{self as yaml};
use std::ops::Range;

/// A part of a text that looks like a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resemblance {
    /// The line that opens it.
    pub(crate) span: Span,
    /// The place of all of it.
    whole: Range<usize>,
    /// The reason that it is none.
    pub(crate) reason: String,
    /// The certainty that a workflow was meant.
    pub(crate) certainty: Certainty,
}

/// The certainty that a workflow was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The fence names a workflow, or the text holds steps of one.
    Meant,
    /// A block of YAML with `steps`, none of which has a form of WorkflowSkill: perhaps an example of another program.
    Possible,
}

/// The forms that a step may have: what tells its steps from those of other programs.
const STEP_TYPES: [&str; 4] = ["tool", "transform", "conditional", "exit"];

/// The most edits between `workflow` and a word that was meant to be it.
const MAX_TYPOS: usize = 2;

/// The first part of a Markdown text that looks like a workflow; of those that are meant for one, if there is any.
/// Parts of the ranges in `known` are none.
pub(crate) fn find(text: &str, known: &[Range<usize>]) -> Option<Resemblance> {
    let mut possible = None;
    let is_known =
        |found: &Resemblance| known.iter().any(|range| found.whole.start < range.end && range.start <= found.whole.end);
    let fences = fences(text);
    let outside = outside(text, &fences);
    for found in fences.iter().filter_map(|fence| fence.resemblance(text)).chain(outside) {
        if is_known(&found) {
            continue;
        }
        match found.certainty {
            Certainty::Meant => return Some(found),
            Certainty::Possible => drop(possible.get_or_insert(found)),
        }
    }
    possible
}

/// A fenced block, whose fence may be misspelt.
#[derive(Debug)]
struct Fence<'t> {
    line: Range<usize>,
    /// Something else than blanks precedes the marker on its line.
    in_container: bool,
    is_indented: bool,
    marker: char,
    width: usize,
    info: &'t str,
    body: Range<usize>,
    closing: Option<Range<usize>>,
}

/// Every line of a text with its range, without its ending. A lone carriage return ends a line as well.
fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    // Each kind of ending is looked for by itself, which is several times as fast, and never twice in the same place.
    let next = |from: usize, ending: char| {
        let found = text.get(from..).and_then(|rest| rest.find(ending));
        found.map_or(text.len(), |at| from + at)
    };
    let (mut at, mut newline, mut carriage_return) = (0, next(0, '\n'), next(0, '\r'));
    std::iter::from_fn(move || {
        if at >= text.len() {
            return None;
        }
        if newline < at {
            newline = next(at, '\n');
        }
        if carriage_return < at {
            carriage_return = next(at, '\r');
        }
        let line = at..newline.min(carriage_return);
        at = if carriage_return + 1 == newline { newline + 1 } else { line.end + 1 };
        Some(line)
    })
}

/// A line without the marks of lists and quotes that it is in.
fn without_containers(line: &str) -> &str {
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after_digits = rest.get(digits..).filter(|_| (1..=9).contains(&digits));
        let item = match after_digits {
            Some(after) => after.strip_prefix(['.', ')']),
            None => rest.strip_prefix(['-', '*', '+']),
        };
        match rest.strip_prefix('>').or_else(|| item.filter(|item| item.starts_with([' ', '\t']))) {
            Some(inner) => rest = inner,
            None => return rest,
        }
    }
}

/// The marker of a fence, its width and what follows; quotes and colons are markers of other formats and of mistakes.
fn marker(line: &str) -> Option<(char, usize, &str)> {
    let marker = line.chars().next().filter(|c| matches!(c, '`' | '~' | '\'' | '´' | ':'))?;
    let rest = line.trim_start_matches(marker);
    let width = line.chars().take_while(|c| *c == marker).count();
    let least = if marker == '`' { 2 } else { 3 };
    (width >= least).then_some((marker, width, rest))
}

fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut fences: Vec<Fence<'_>> = Vec::new();
    let mut is_open = false;
    for line in lines(text) {
        let written = text.get(line.clone()).unwrap_or_default();
        let inner = without_containers(written);
        let found = marker(inner);
        if let Some(open) = fences.last_mut().filter(|_| is_open) {
            open.body.end = line.end;
            match found {
                Some((marker, width, rest)) if marker == open.marker && width >= open.width => {
                    if rest.trim().is_empty() {
                        open.closing = Some(line.clone());
                        open.body.end = line.start;
                        is_open = false;
                        continue;
                    }
                    // No fence of its own in Markdown; but a workflow behind a block that someone forgot to close is.
                    if !names_workflow(rest) {
                        continue;
                    }
                }
                _ => continue,
            }
        }
        let Some((marker, width, info)) = found else { continue };
        // Two backticks, quotes and colons open a block only where they name a workflow.
        let is_fence = matches!(marker, '`' | '~') && width >= 3;
        // Code in a line: ```` ```x``` ````.
        let is_span = marker == '`' && info.contains('`');
        if is_span || !(is_fence || names_workflow(info)) {
            continue;
        }
        is_open = true;
        fences.push(Fence {
            in_container: !written.trim_start().starts_with(marker),
            is_indented: written.starts_with([' ', '\t']),
            marker,
            width,
            info,
            body: line.end..line.end,
            closing: None,
            line,
        });
    }
    fences
}

/// The words of an info string, without what surrounds them in braces, dots and attributes.
fn words(info: &str) -> impl Iterator<Item = &str> {
    info.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'))).filter(|word| !word.is_empty())
}

/// Returns `true` if an info string names a workflow: its first word does, or the second after `yaml` or `language`.
fn names_workflow(info: &str) -> bool {
    let mut words = words(info);
    let Some(first) = words.next() else { return false };
    let is_workflow = |word: &str| {
        let word = word.trim_start_matches("language-").trim_start_matches("lang-");
        word.starts_with("workflow") || is_typo(word)
    };
    let first = first.to_lowercase();
    is_workflow(&first)
        || (matches!(first.as_str(), "yaml" | "yml" | "json" | "skill" | "opcell" | "language" | "lang")
            && words.next().is_some_and(|second| matches!(second.to_lowercase().as_str(), "workflow" | "workflows")))
}

/// Returns `true` if a word is `workflow` with a slip or two.
fn is_typo(word: &str) -> bool {
    let wanted: Vec<char> = "workflow".chars().collect();
    let word: Vec<char> = word.chars().take(wanted.len() + MAX_TYPOS + 1).collect();
    if word.len().abs_diff(wanted.len()) > MAX_TYPOS {
        return false;
    }
    let mut row: Vec<usize> = (0..=wanted.len()).collect();
    for (i, c) in word.iter().enumerate() {
        let mut next = vec![i + 1];
        for ((wanted, above), diagonal) in wanted.iter().zip(row.iter().skip(1)).zip(&row) {
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(c != wanted)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().is_some_and(|edits| *edits <= MAX_TYPOS)
}

impl Fence<'_> {
    fn resemblance(&self, text: &str) -> Option<Resemblance> {
        let body = text.get(self.body.clone()).unwrap_or_default();
        let (certainty, reason) = if names_workflow(self.info) {
            (Certainty::Meant, self.reason(body))
        } else {
            let first = words(self.info).next().unwrap_or_default().to_lowercase();
            if !matches!(first.as_str(), "" | "yaml" | "yml" | "json" | "json5" | "jsonc" | "text" | "txt") {
                return None;
            }
            // A block that shows another block is an example.
            if body.lines().any(|line| marker(without_containers(line)).is_some_and(|(c, ..)| matches!(c, '`' | '~'))) {
                return None;
            }
            let certainty = steps_of(body)?;
            let reason = match first.as_str() {
                "" => "its fence names no language".to_owned(),
                name => format!("its fence says `{name}`"),
            };
            (certainty, reason)
        };
        let end = self.closing.as_ref().map_or(self.body.end, |closing| closing.end);
        let span = Span::new(self.line.start, self.line.end);
        Some(Resemblance { span, whole: self.line.start..end, reason, certainty })
    }

    /// The reason that a fence that names a workflow opens none.
    fn reason(&self, body: &str) -> String {
        if self.marker != '`' || self.width < 3 {
            let written: String = std::iter::repeat_n(self.marker, self.width.min(8)).collect();
            return format!("its fence begins with {written} instead of three backticks");
        }
        if self.info.trim_end() != "workflow" {
            let shown: String = self.info.trim_end().chars().take(60).collect();
            return format!("its fence says `{shown}` instead of `workflow` alone, without a space before it");
        }
        if self.closing.is_none() {
            return "its fence is never closed".to_owned();
        }
        if self.in_container {
            return "its fence is inside a list or a quote".to_owned();
        }
        if self.is_indented {
            return "its fence is indented".to_owned();
        }
        if body.trim().is_empty() {
            return "its block is empty".to_owned();
        }
        "its closing fence does not begin a line".to_owned()
    }
}

/// The certainty that YAML or JSON, perhaps broken, is a workflow; `None` without steps at its root.
fn steps_of(block: &str) -> Option<Certainty> {
    let named = |line: &str| {
        let key = line.trim_start_matches(['{', ' ', '\t', '"', '\'', '>', '-']);
        key.strip_prefix("steps").is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    // JSON need not begin a line with it.
    let is_json = block.trim_start().starts_with('{') && block.contains("\"steps\"");
    if !is_json && !block.lines().any(named) {
        return None;
    }
    match yaml::parse(&dedented(block)) {
        Ok(root) => {
            root.get("steps")?;
        }
        // Broken YAML: `steps` on the outermost level of what is there.
        Err(_) => {
            let indent = |line: &str| line.len() - line.trim_start().len();
            let least = block.lines().filter(|line| !line.trim().is_empty()).map(indent).min()?;
            block.lines().find(|line| named(line) && indent(line) <= least + 2)?;
        }
    }
    Some(if has_step_type(block) { Certainty::Meant } else { Certainty::Possible })
}

/// A block without what all of its lines begin with: blanks, or the marks of a quote.
fn dedented(block: &str) -> String {
    let full = || block.lines().filter(|line| !line.trim().is_empty());
    let is_margin = |c: char| matches!(c, ' ' | '\t' | '>');
    let margin = full().map(|line| line.len() - line.trim_start_matches(is_margin).len()).min().unwrap_or(0);
    let lines: Vec<&str> = block.lines().map(|line| line.get(margin..).unwrap_or_default()).collect();
    lines.join("\n")
}

/// Returns `true` if a text has `type: tool`, or another form of a step, anywhere.
fn has_step_type(text: &str) -> bool {
    text.match_indices("type").any(|(at, key)| {
        let Some(rest) = text.get(at + key.len()..) else { return false };
        let Some(value) = rest.trim_start_matches(['"', '\'', ' ']).strip_prefix(':') else { return false };
        let value = value.trim_start_matches(['"', '\'', ' ', '\t']);
        let word = value.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        STEP_TYPES.contains(&word)
    })
}

/// Steps of a workflow that stand in the text itself, without any fence.
fn outside(text: &str, fences: &[Fence<'_>]) -> Option<Resemblance> {
    // Both are in order: each line is compared with one fence.
    let mut ahead = fences.iter().peekable();
    let mut is_fenced = move |line: &Range<usize>| {
        let end = |fence: &Fence<'_>| fence.closing.as_ref().map_or(fence.body.end, |closing| closing.end);
        while ahead.next_if(|fence| end(fence) <= line.start).is_some() {}
        ahead.peek().is_some_and(|fence| fence.line.start <= line.start)
    };
    let start = extract::front_matter(text).map_or(0, |matter| matter.end);
    let mut lines = lines(text).filter(|line| line.start >= start && !is_fenced(line));
    let steps = lines.find(|line| {
        let written = text.get(line.clone()).unwrap_or_default();
        written.trim_start().strip_prefix("steps").is_some_and(|rest| rest.trim_start().starts_with(':'))
    })?;
    // What follows: items, and what belongs to them. Prose between them ends it.
    let is_part = |line: &&Range<usize>| {
        let written = text.get((*line).clone()).unwrap_or_default();
        written.trim().is_empty() || written.starts_with([' ', '\t', '-'])
    };
    let first = text.get(steps.clone()).unwrap_or_default();
    let rest: Vec<Range<usize>> = lines.collect();
    let end = rest.iter().take_while(is_part).last().map_or(steps.end, |line| line.end);
    let written = text.get(steps.end..end).unwrap_or_default();
    let has_items = written.lines().any(|line| line.trim_start().starts_with("- "));
    let inline = first.contains('[') && has_step_type(first);
    ((has_items && has_step_type(written)) || inline).then(|| Resemblance {
        span: Span::new(steps.start, steps.end),
        whole: steps.start..end,
        reason: "it is not in a fence".to_owned(),
        certainty: Certainty::Meant,
    })
}

#[cfg(test)]
mod tests {
    use super::{Certainty, find, is_typo};
    use crate::workflowskill::extract;

    const STEPS: &str = "steps:\n  - { id: a, type: tool, tool: t }";

    fn reason(text: &str) -> Option<String> {
        assert_eq!(extract::block(text), None, "{text}");
        find(text, &[]).map(|found| {
            assert_eq!(found.certainty, Certainty::Meant, "{text}");
            found.reason
        })
    }

    #[test]
    fn a_fence_that_is_spelled_otherwise_is_found_with_the_reason() {
        for (text, expected) in [
            (format!("``` workflow\n{STEPS}\n```\n"), "says ` workflow`"),
            (format!("~~~workflow\n{STEPS}\n~~~\n"), "begins with ~~~"),
            (format!("~~~~ workflow\n{STEPS}\n~~~~\n"), "begins with ~~~~"),
            (format!("``workflow\n{STEPS}\n``\n"), "begins with ``"),
            (format!("'''workflow\n{STEPS}\n'''\n"), "begins with '''"),
            (format!(":::workflow\n{STEPS}\n:::\n"), "begins with :::"),
            (format!("```Workflow\n{STEPS}\n```\n"), "says `Workflow`"),
            (format!("```workflows\n{STEPS}\n```\n"), "says `workflows`"),
            (format!("```worfklow\n{STEPS}\n```\n"), "says `worfklow`"),
            (format!("```workflow title=\"main\"\n{STEPS}\n```\n"), "says `workflow title=\"main\"`"),
            (format!("```{{.workflow}}\n{STEPS}\n```\n"), "says `{.workflow}`"),
            (format!("```yaml workflow\n{STEPS}\n```\n"), "says `yaml workflow`"),
            (format!("```workflow-skill\n{STEPS}\n```\n"), "says `workflow-skill`"),
            (format!("```\u{a0}workflow\n{STEPS}\n```\n"), "says"),
            (format!("```workflow\n{STEPS}\n"), "never closed"),
            (format!("```workflow\n{STEPS}\n~~~\n"), "never closed"),
            ("```workflow\n```\n".to_owned(), "is empty"),
            (format!("   ```workflow\n   {STEPS}\n   ```\n"), "is indented"),
            (format!("- a\n\n  ```workflow\n  {STEPS}\n  ```\n"), "is indented"),
            (format!("- ```workflow\n  {STEPS}\n  ```\n"), "inside a list or a quote"),
            (format!("1. ```workflow\n   {STEPS}\n   ```\n"), "inside a list or a quote"),
            (format!("> ```workflow\n> {STEPS}\n> ```\n"), "inside a list or a quote"),
            (format!("```yaml\n{STEPS}\n```\n"), "says `yaml`"),
            (format!("```yml\n{STEPS}\n```\n"), "says `yml`"),
            (format!("```\n{STEPS}\n```\n"), "names no language"),
            (format!("```yaml\n{STEPS}\n"), "says `yaml`"),
            ("```json\n{\"steps\": [{\"id\": \"a\", \"type\": \"tool\"}]}\n```\n".to_owned(), "says `json`"),
            ("```yaml\nsteps:\n - id: a\n   type: tool\n  x: [\n```\n".to_owned(), "says `yaml`"),
            (format!("---\nname: a\n---\n{STEPS}\n"), "not in a fence"),
            (format!("---\nname: a\n---\n# T\n\ninputs: {{}}\n{STEPS}\n"), "not in a fence"),
            (format!("```js\nx\n\n``` workflow\n{STEPS}\n```\n"), "says ` workflow`"),
            (format!("```workflow\r{STEPS}\r```\r"), "does not begin a line"),
        ] {
            let found = reason(&text).unwrap_or_else(|| panic!("{text}"));
            assert!(found.contains(expected), "{text}: {found}");
        }
    }

    #[test]
    fn prompts_about_other_things_are_prompts() {
        for text in [
            "Do it.",
            "steps:\n- read the file\n- write the file",
            "Steps:\n\n1. type: tool is a phrase\n",
            "```yaml\njobs:\n  build:\n    steps:\n      - run: make\n```",
            "```js\nconst workflow = {steps: []}\n```",
            "```worker\nx\n```",
            "```yaml .github/workflows/ci.yml\non: push\n```",
            "Write ```` ```workflow ```` blocks.",
            "Say ```workflow``` to me.",
            "````markdown\n``` workflow\nsteps: []\n```\n````",
            "~~~\n``` workflow\nsteps: []\n```\n~~~",
            ":::note\nworkflow\n:::",
            "The `workflow` is:\n\n    workflow\n",
        ] {
            assert_eq!(find(text, &[]), None, "{text}");
        }
    }

    #[test]
    fn a_workflow_in_json_on_one_line_is_one() {
        let text = "```json\n{\"inputs\":{},\"steps\":[{\"id\":\"a\",\"type\":\"exit\"}]}\n```";
        assert_eq!(find(text, &[]).unwrap().certainty, Certainty::Meant);
        assert_eq!(find("```json\n{\"a\":{\"steps\":[{\"type\":\"exit\"}]}}\n```", &[]), None);
    }

    #[test]
    fn steps_of_another_program_are_a_doubt_and_no_refusal() {
        let found = find("```yaml\nsteps:\n  - command: make\n```", &[]).unwrap();
        assert_eq!(found.certainty, Certainty::Possible);
        let text = format!("```yaml\nsteps:\n  - command: make\n```\n\n~~~workflow\n{STEPS}\n~~~");
        assert_eq!(find(&text, &[]).unwrap().certainty, Certainty::Meant, "what is certain comes first");
    }

    #[test]
    fn what_is_a_workflow_is_not_said_to_resemble_one() {
        let text = format!("```workflow\n{STEPS}\n```\n\n``` workflow\n{STEPS}\n```\n");
        let block = extract::block(&text).unwrap();
        let second = find(&text, std::slice::from_ref(&block)).unwrap();
        assert!(second.span.start > block.end);
        assert_eq!(find(text.get(..block.end + 5).unwrap(), &[block]), None);
    }

    #[test]
    fn two_slips_are_a_typo_and_another_word_is_none() {
        for word in ["workflow", "worklow", "wrokflow", "workfllow", "workflo", "w0rkfl0w"] {
            assert!(is_typo(word), "{word}");
        }
        for word in ["worker", "workspace", "flow", "", "overflow", "yaml"] {
            assert!(!is_typo(word), "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[`~>\\- a-z:\n\r\\[{1.]{0,60}(workflow|steps:|```|type: tool)?[`~ \n]{0,10}") {
            let _ = find(&text, &[]);
        }
    }
}
