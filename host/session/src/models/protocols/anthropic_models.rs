//! Abilities of Anthropic's models, by their names: the API refuses parameters that a model does not have.

/// A family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Opus,
    Sonnet,
    Haiku,
    /// Fable and Mythos.
    Newer,
    Unknown,
}

/// A model by its name: `claude-opus-4-6`, `claude-3-5-sonnet-20241022`, with whatever a gateway puts before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnthropicModel {
    family: Family,
    version: Option<(u32, u32)>,
}

impl AnthropicModel {
    pub(super) fn parse(name: &str) -> Self {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).skip_while(|word| *word != "claude").skip(1);
        let (mut family, mut numbers): (Option<Family>, Vec<u32>) = (None, Vec::new());
        while numbers.len() < 2 {
            let Some(word) = words.next() else { break };
            match word {
                "opus" => family = Some(Family::Opus),
                "sonnet" => family = Some(Family::Sonnet),
                "haiku" => family = Some(Family::Haiku),
                "fable" | "mythos" => family = Some(Family::Newer),
                // A version has one or two digits, a date eight.
                word if word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit()) => {
                    numbers.extend(word.parse::<u32>().ok());
                }
                _ if family.is_some() => break,
                _ => {}
            }
        }
        // The family follows the version in older names.
        let rest = || words.clone();
        let family = family.or_else(|| {
            rest().find_map(|word| match word {
                "opus" => Some(Family::Opus),
                "sonnet" => Some(Family::Sonnet),
                "haiku" => Some(Family::Haiku),
                _ => None,
            })
        });
        let version = numbers.first().map(|major| (*major, numbers.get(1).copied().unwrap_or(0)));
        Self { family: family.unwrap_or(Family::Unknown), version }
    }

    fn is_from(&self, first: (u32, u32)) -> bool {
        self.version.is_some_and(|version| version >= first)
    }

    /// Returns `true` if it takes `output_config.effort`.
    pub(super) fn has_effort(&self) -> bool {
        match self.family {
            Family::Opus => self.is_from((4, 5)),
            Family::Sonnet => self.is_from((4, 6)),
            Family::Haiku => self.is_from((5, 0)),
            Family::Newer => true,
            Family::Unknown => false,
        }
    }

    /// Returns `true` if it takes tools whose arguments are held to their schema.
    pub(super) fn has_strict_tools(&self) -> bool {
        match self.family {
            Family::Opus => self.is_from((4, 1)),
            Family::Sonnet | Family::Haiku => self.is_from((4, 5)),
            Family::Newer => true,
            Family::Unknown => false,
        }
    }

    /// Returns `true` if it takes `temperature`, `top_p` and `top_k`.
    pub(super) fn has_sampling(&self) -> bool {
        match self.family {
            Family::Opus => !self.is_from((4, 7)),
            Family::Sonnet => !self.is_from((5, 0)),
            Family::Newer => false,
            Family::Haiku | Family::Unknown => true,
        }
    }

    /// Returns `true` if a request can make it call a tool.
    pub(super) fn has_forced_calls(&self) -> bool {
        match self.family {
            Family::Opus | Family::Sonnet => !self.is_from((5, 5)),
            Family::Newer => !self.is_from((5, 1)),
            Family::Haiku | Family::Unknown => true,
        }
    }

    /// Returns `true` if it thinks whatever a request says.
    pub(super) fn always_thinks(&self) -> bool {
        match self.family {
            Family::Opus | Family::Sonnet => self.is_from((5, 5)),
            Family::Newer => true,
            Family::Haiku | Family::Unknown => false,
        }
    }

    /// Returns `true` if the effort may be `xhigh`.
    pub(super) fn has_extra_effort(&self) -> bool {
        match self.family {
            Family::Opus => self.is_from((4, 7)),
            Family::Sonnet | Family::Haiku => self.is_from((5, 0)),
            Family::Newer => true,
            Family::Unknown => false,
        }
    }

    /// Returns `true` if it decides by itself how long it thinks.
    pub(super) fn has_adaptive_thinking(&self) -> bool {
        match self.family {
            Family::Opus | Family::Sonnet => self.is_from((4, 6)),
            Family::Haiku => self.is_from((5, 0)),
            Family::Newer => true,
            Family::Unknown => false,
        }
    }

    /// Returns `true` if it thinks unless it is told not to.
    pub(super) fn thinks_by_default(&self) -> bool {
        matches!(self.family, Family::Opus | Family::Sonnet | Family::Haiku) && self.is_from((5, 0))
    }

    /// The most tokens of an answer.
    pub(super) fn max_tokens(&self) -> u32 {
        match self.family {
            Family::Opus if self.is_from((4, 8)) => 128_000,
            Family::Opus if self.is_from((4, 5)) => 64_000,
            Family::Opus if self.is_from((4, 0)) => 32_000,
            Family::Opus if self.version.is_some() => 4096,
            Family::Sonnet | Family::Haiku if self.is_from((5, 0)) && self.family == Family::Haiku => 128_000,
            Family::Sonnet | Family::Haiku if self.is_from((3, 7)) => 64_000,
            Family::Sonnet | Family::Haiku if self.is_from((3, 5)) => 8192,
            Family::Sonnet | Family::Haiku if self.version.is_some() => 4096,
            Family::Newer => 128_000,
            _ => 64_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_models_refuse_what_older_ones_take() {
        for (name, sampling, forced, always) in [
            ("claude-opus-4-6", true, true, false),
            ("claude-opus-4-7-20260416", false, true, false),
            ("claude-opus-5-5", false, false, true),
            ("claude-sonnet-4-6", true, true, false),
            ("claude-sonnet-5", false, true, false),
            ("claude-sonnet-5-5", false, false, true),
            ("claude-haiku-5-5", true, true, false),
            ("claude-fable-5", false, true, true),
            ("claude-mythos-5-1", false, false, true),
            ("a-model-of-a-gateway", true, true, false),
        ] {
            let model = AnthropicModel::parse(name);
            let has = (model.has_sampling(), model.has_forced_calls(), model.always_thinks());
            assert_eq!(has, (sampling, forced, always), "{name}");
        }
    }

    #[test]
    fn names_say_what_a_model_can_do() {
        let of = |name| {
            let model = AnthropicModel::parse(name);
            (model.has_effort(), model.has_adaptive_thinking(), model.thinks_by_default(), model.max_tokens())
        };
        for (name, expected) in [
            ("claude-opus-4-8", (true, true, false, 128_000)),
            ("claude-opus-4-6-20260101", (true, true, false, 64_000)),
            ("claude-opus-4-5", (true, false, false, 64_000)),
            ("claude-opus-4-20250514", (false, false, false, 32_000)),
            ("claude-sonnet-4-20250514", (false, false, false, 64_000)),
            ("claude-sonnet-4-6", (true, true, false, 64_000)),
            ("claude-sonnet-5", (true, true, true, 64_000)),
            ("claude-haiku-4-5-20251001", (false, false, false, 64_000)),
            ("claude-haiku-5", (true, true, true, 128_000)),
            ("claude-3-7-sonnet-latest", (false, false, false, 64_000)),
            ("claude-3-5-haiku-20241022", (false, false, false, 8192)),
            ("claude-3-opus-20240229", (false, false, false, 4096)),
            ("claude-3-haiku-20240307", (false, false, false, 4096)),
            ("us.anthropic.claude-opus-4-7-v1:0", (true, true, false, 64_000)),
            ("claude-mythos-1", (true, true, false, 128_000)),
            ("m-1", (false, false, false, 64_000)),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
        let strict = ["claude-opus-4-1-20250805", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-mythos-1"];
        let others = ["claude-opus-4-20250514", "claude-sonnet-4-20250514", "claude-3-7-sonnet-latest", "m-1"];
        assert!(strict.iter().all(|name| AnthropicModel::parse(name).has_strict_tools()));
        assert!(!others.iter().any(|name| AnthropicModel::parse(name).has_strict_tools()));
    }
}
