//! The languages with a template and a tool chain.

use opcell_types::suggest::did_you_mean;
use std::{fmt, str::FromStr};

/// A language that plugins are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `cargo`, target `wasm32-unknown-unknown`.
    Rust,
    /// `componentize-qjs`: QuickJS in the component.
    Javascript,
    /// `componentize-py`: CPython in the component.
    Python,
    /// `clang` for `wasm32`, with the SDK's own few functions of the C library.
    C,
}

impl Language {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Javascript, Self::Python, Self::C];

    /// As it is written in `plugin.toml` and after `--lang`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Javascript => "javascript",
            Self::Python => "python",
            Self::C => "c",
        }
    }

    /// As it is written in a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Javascript => "JavaScript",
            Self::Python => "Python",
            Self::C => "C",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|language| language.name() == text).ok_or_else(|| {
            let short = [
                ("js", Self::Javascript),
                ("ts", Self::Javascript),
                ("typescript", Self::Javascript),
                ("py", Self::Python),
                ("rs", Self::Rust),
            ];
            let meant =
                short.iter().find(|(short, _)| *short == text.to_ascii_lowercase()).map(|(_, meant)| meant.name());
            let meant = meant.or_else(|| did_you_mean(text, Self::ALL.map(Self::name)));
            let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            format!("`{text}` is not a language of plugins: expected rust, javascript, python or c{meant}")
        })
    }
}
