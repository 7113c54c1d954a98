//! All errors of plugins and cells, as closed enums with stable names.

use crate::{
    compile::CompileError,
    limits::{LimitError, TABLE, Unit},
    manifest::ManifestError,
    recording::NotRecorded,
};
use opcell_types::{Denial, Digest, Failure, Source, Value};
use std::path::PathBuf;

/// Why a cell has no result. The receipt is beside it in [`crate::CellResult`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The plugin offers no such operation or judge.
    #[error("plugin `{plugin}` has no {what} `{id}`{}", .suggestion.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The plugin.
        plugin: String,
        /// `operation` or `judge`.
        what: &'static str,
        /// The requested id.
        id: String,
        /// The nearest id.
        suggestion: Option<String>,
    },
    /// The arguments do not fit the operation's schema, or are not JSON.
    #[error("the arguments of `{id}` do not match its schema: {message}")]
    InvalidArguments {
        /// The operation or judge.
        id: String,
        /// The place, and what was expected.
        message: String,
    },
    /// The wall time is up.
    #[error("wall time limit reached: {}", Unit::Milliseconds.show(*.limit_ms))]
    Timeout {
        /// In milliseconds.
        limit_ms: u64,
    },
    /// The call never began: its time was up before a cell became free, or too many calls wait already.
    #[error("busy: {message}")]
    Busy {
        /// The one of the two that it is, with the limit.
        message: String,
    },
    /// The guest was seen running in more ticks than it may.
    #[error("computing time limit reached: {} (limit `ticks`)", Unit::Milliseconds.show(.ticks.saturating_mul(10)))]
    Interrupted {
        /// Limit, in ticks of 10 ms.
        ticks: u64,
    },
    /// The caller cancelled the cell.
    #[error("cancelled")]
    Cancelled,
    /// The deterministic engine's fuel is used up.
    #[error("fuel limit reached: {fuel} units (limit `fuel`)")]
    OutOfFuel {
        /// Limit, in units of fuel: about one per instruction.
        fuel: u64,
    },
    /// The guest needs more memory or table elements than it may have.
    #[error("out of memory: the limit is {}{}", .exhausted.shown(), .panic.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Memory {
        /// The exhausted resource.
        exhausted: Exhausted,
        /// The report of the guest's panic hook.
        panic: Option<String>,
    },
    /// The guest's stack is used up.
    #[error("stack overflow: the plugin recurses too deeply")]
    StackOverflow,
    /// The guest trapped.
    #[error("{}", match .panic { Some(text) => format!("the plugin panicked: {text}"), None => format!("the plugin trapped: {code}") })]
    Trap {
        /// The engine's words for the trap.
        code: String,
        /// The report of the guest's panic hook just before.
        panic: Option<String>,
    },
    /// The guest broke the component model's rules: pointers out of bounds, text that is not UTF-8, and the like.
    #[error("the plugin violated the component ABI: {message}")]
    AbiViolation {
        /// The engine's words.
        message: String,
    },
    /// Too many bytes over the boundary, in one call or in all together.
    #[error("too much data over the boundary: {message}")]
    TransferLimit {
        /// The limit with its value in bytes.
        message: String,
    },
    /// Too many resource handles.
    #[error("more than {limit} resource handles (limit `handles`)")]
    HandleLimit {
        /// Limit, in handles open at the same time.
        limit: u64,
    },
    /// Too many calls of host functions.
    #[error("more than {limit} host calls (limit `host-calls`)")]
    HostCallLimit {
        /// Limit, in calls per cell.
        limit: u64,
    },
    /// The plugin gave up because the host refused it something.
    #[error("{0}")]
    Denied(Denial),
    /// The host failed while serving the guest.
    #[error("the host failed: {message}")]
    HostError {
        /// Message of the host, printable and bounded.
        message: String,
    },
    /// A call that was called again with its recording asked the host for what is not in it.
    #[error("{0}")]
    NotRecorded(NotRecorded),
    /// The result is not JSON, or does not fit the schema that the plugin itself declares.
    #[error("the result of `{id}` is malformed: {message}")]
    MalformedResult {
        /// The operation or judge.
        id: String,
        /// The place, and what was expected.
        message: String,
    },
    /// The plugin reported a failure.
    #[error("{0}")]
    PluginFailure(Failure),
}

impl CellError {
    /// The stable, kebab-case name of this kind of error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unknown { what: "judge", .. } => "unknown-judge",
            Self::Unknown { .. } => "unknown-operation",
            Self::InvalidArguments { .. } => "invalid-arguments",
            Self::Timeout { .. } => "timeout",
            Self::Busy { .. } => "busy",
            Self::Interrupted { .. } => "interrupted",
            Self::Cancelled => "cancelled",
            Self::OutOfFuel { .. } => "out-of-fuel",
            Self::Memory { .. } => "memory",
            Self::StackOverflow => "stack-overflow",
            Self::Trap { .. } => "trap",
            Self::AbiViolation { .. } => "abi-violation",
            Self::TransferLimit { .. } => "transfer-limit",
            Self::HandleLimit { .. } => "handle-limit",
            Self::HostCallLimit { .. } => "host-call-limit",
            Self::Denied(_) => "denied",
            Self::HostError { .. } => "host-error",
            Self::NotRecorded(_) => "not-recorded",
            Self::MalformedResult { .. } => "malformed-result",
            Self::PluginFailure(_) => "plugin-failure",
        }
    }
}

impl CellError {
    /// The key of the limit that ended the cell, where one did.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Memory { exhausted: Exhausted::Memory { .. }, .. } => Some("memory"),
            Self::Memory { exhausted: Exhausted::Table { .. }, .. } => Some("table-elements"),
            Self::Timeout { .. } => Some("wall-time"),
            Self::Interrupted { .. } => Some("ticks"),
            Self::OutOfFuel { .. } => Some("fuel"),
            Self::HandleLimit { .. } => Some("handles"),
            Self::HostCallLimit { .. } => Some("host-calls"),
            // Its message names the limit, whichever of them it is.
            Self::TransferLimit { message } => {
                TABLE.iter().map(|spec| spec.key).find(|key| message.contains(&format!("(limit `{key}`)")))
            }
            _ => None,
        }
    }
}

impl From<CellError> for Failure {
    /// A plugin's own failure keeps its reason and its source; everything else is the sandbox's, named by its kind. A
    /// retry may help where the cause may pass.
    fn from(error: CellError) -> Self {
        let failure = Self::new(Source::Sandbox, error.kind(), error.to_string());
        match error {
            CellError::PluginFailure(failure) if says_final(&failure) => failure,
            CellError::PluginFailure(failure) => failure.retriable(),
            CellError::Denied(denial) => failure.with_denial(denial),
            CellError::Timeout { .. } | CellError::Busy { .. } | CellError::HostError { .. } => failure.retriable(),
            _ => failure,
        }
    }
}

/// Returns `true` if a plugin says in the details of its failure that calling it again would not help.
fn says_final(failure: &Failure) -> bool {
    failure.details.as_ref().and_then(|details| details.get("retriable")) == Some(&Value::Bool(false))
}

/// Why a component did not become a plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the plugin `{}`: {source}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// More bytes than a component may have.
    #[error("the component has {size} bytes; at most {limit} are compiled")]
    TooLarge {
        /// Bytes.
        size: u64,
        /// Limit, in bytes.
        limit: u64,
    },
    /// Not a component.
    #[error("not a WebAssembly component: {message}")]
    NotAComponent {
        /// The kind of file that it is instead.
        message: String,
    },
    /// A core module: what most compilers make before a component is made of it.
    #[error("not a WebAssembly component: it is a core module{}", if *.described { "" } else { " that describes no interface" })]
    CoreModule {
        /// `true` if it carries a description of its interface, so that a component can be made of it.
        described: bool,
    },
    /// The manifest section is malformed.
    #[error("the component's manifest is invalid: {0}")]
    Manifest(#[from] ManifestError),
    /// The component exports neither operations nor judges.
    #[error(
        "the component has the wrong world: it exports {exports}, but neither `opcell:plugin/operations` nor `opcell:plugin/judges`; build it against a world of `opcell:plugin@{served}`"
    )]
    World {
        /// The exports.
        exports: String,
        /// The served version.
        served: &'static str,
    },
    /// A component's functions cannot be offered as operations by their types.
    #[error("none of the component's exports can be an operation as it is:{}", lines(.problems, Clone::clone))]
    Typed {
        /// The problems, a function or a setting each.
        problems: Vec<String>,
    },
    /// The component is built against a version of the contract that is not served.
    #[error(
        "`{interface}` is version {found} of the contract, this host serves {served}; build the plugin against `opcell:plugin@{served}`"
    )]
    Version {
        /// The import or export.
        interface: String,
        /// Its version.
        found: String,
        /// The served version.
        served: &'static str,
    },
    /// The component requests more than its operator has agreed to: an upgrade that has not been reviewed.
    #[error("this version requests more than was agreed to, and is not loaded until that is granted:{}", lines(.0, |denial| format!("{}: {}", denial.capability, denial.remedy)))]
    AsksForMore(Vec<Denial>),
    /// The component is not the one that its operator accepted.
    #[error("its bytes have changed since it was accepted: digest {}…, was {}…{}", .found.short(), .pinned.short(), more(.asks_for))]
    Changed {
        /// The digest that was accepted.
        pinned: Digest,
        /// The digest of what is there.
        found: Digest,
        /// The requests that are new.
        asks_for: Vec<Denial>,
    },
    /// The component imports what no plugin gets.
    #[error("the component imports what the host does not offer to plugins:{}", lines(.0, ToString::to_string))]
    Imports(Vec<crate::inspect::RefusedImport>),
    /// The component cannot be linked although its imports are known by name.
    #[error("cannot link the component: {message}")]
    Link {
        /// The engine's words.
        message: String,
    },
    /// The compiler refused, failed or ran out of its limits.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// No engine has room for a component of this shape.
    #[error("the component is too large for every pool: {message}")]
    Shape {
        /// The engine's words.
        message: String,
    },
    /// A granted directory holds the user's own keys or compiled code, or lies among them.
    #[error("the grant `{name}` of `{}` would reach `{}`, which holds keys or compiled code and is never reached through a grant; grant a narrower directory", .path.display(), .place.display())]
    Sealed {
        /// The grant.
        name: String,
        /// Its directory.
        path: PathBuf,
        /// The place that it would reach.
        place: PathBuf,
    },
    /// A directory that is granted through WASI holds files that decide what runs.
    #[error("the preopen `{guest}` of `{}` would let the plugin write files that decide what runs and what it may reach; grant a directory without them, grant `files` instead, or set `control-files = true` on it", .path.display())]
    ControlFiles {
        /// The path that the guest sees.
        guest: String,
        /// The directory on the host.
        path: PathBuf,
    },
    /// `describe` did not run to its end.
    #[error("`describe` of {interface} failed: {error}")]
    DescribeFailed {
        /// `operations` or `judges`.
        interface: &'static str,
        /// Error of the cell that ran `describe`.
        error: Box<CellError>,
    },
    /// `describe` says something that cannot be true or used.
    #[error("`describe` of {interface} is invalid: {message}")]
    Describe {
        /// `operations` or `judges`.
        interface: &'static str,
        /// The problem, and what was expected.
        message: String,
    },
    /// A granted directory cannot be opened.
    #[error("cannot open the grant `{name}`: `{}`: {source}", .path.display())]
    Grant {
        /// Name under which the plugin opens it.
        name: String,
        /// The directory on the host.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A grant's pattern is not a pattern.
    #[error("the grant `{name}` has an invalid pattern `{pattern}`: {message}")]
    Pattern {
        /// Name under which the plugin opens it.
        name: String,
        /// The pattern as the project writes it.
        pattern: String,
        /// Message of the pattern compiler.
        message: String,
    },
}

/// One line for each, up to a readable number.
fn lines<T>(items: &[T], line: impl Fn(&T) -> String) -> String {
    const SHOWN: usize = 20;
    let mut lines: String = items.iter().take(SHOWN).map(|item| format!("\n  {}", line(item))).collect();
    if let Some(more @ 1..) = items.len().checked_sub(SHOWN) {
        lines.push_str(&format!("\n  and {more} more"));
    }
    lines
}

fn more(denials: &[Denial]) -> String {
    match denials {
        [] => String::new(),
        denials => format!("; it newly requests:{}", lines(denials, |denial| denial.capability.clone())),
    }
}

impl LoadError {
    /// The stable, kebab-case name of this kind of error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => "plugin-not-found",
            Self::Read { .. } => "unreadable",
            Self::TooLarge { .. } => "too-large",
            Self::NotAComponent { .. } | Self::CoreModule { .. } => "not-a-component",
            Self::Manifest(_) => "invalid-manifest",
            Self::World { .. } | Self::Typed { .. } => "wrong-world",
            Self::Version { .. } => "unsupported-version",
            Self::Changed { .. } => "plugin-changed",
            Self::AsksForMore(_) => "new-permissions",
            Self::Imports(_) | Self::Link { .. } => "link-error",
            Self::Compile(error) => error.kind(),
            Self::Shape { .. } => "too-large-for-pool",
            Self::DescribeFailed { .. } | Self::Describe { .. } => "describe-failed",
            Self::Grant { .. } | Self::Pattern { .. } => "invalid-grant",
            Self::Sealed { .. } | Self::ControlFiles { .. } => "control-files",
        }
    }

    /// Returns `true` if the error is about the component itself: it is missing, or it is not a plugin that this host can
    /// run. Errors about what its operator agreed to or granted are not.
    #[must_use]
    pub fn is_of_component(&self) -> bool {
        match self {
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::NotAComponent { .. }
            | Self::CoreModule { .. }
            | Self::Manifest(_)
            | Self::World { .. }
            | Self::Typed { .. }
            | Self::Version { .. }
            | Self::Imports(_)
            | Self::Link { .. }
            | Self::Compile(_)
            | Self::Shape { .. }
            | Self::DescribeFailed { .. }
            | Self::Describe { .. } => true,
            Self::Changed { .. }
            | Self::AsksForMore(_)
            | Self::Grant { .. }
            | Self::Pattern { .. }
            | Self::Sealed { .. }
            | Self::ControlFiles { .. } => false,
        }
    }

    /// The key of the limit that ended `describe`, where it was one that may be higher.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::DescribeFailed { error, .. } => error.limit(),
            _ => None,
        }
    }
}

/// The resource that a guest ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// Linear memory.
    Memory {
        /// Limit, in bytes.
        limit: u64,
    },
    /// Elements of tables.
    Table {
        /// Limit, in elements.
        limit: u64,
    },
}

impl Exhausted {
    fn shown(self) -> String {
        match self {
            Self::Memory { limit } => format!("{} (limit `memory`)", Unit::Bytes.show(limit)),
            Self::Table { limit } => format!("{limit} elements of tables (limit `table-elements`)"),
        }
    }
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no program to compile plugins in.
    #[error(
        "there is nowhere to compile plugins: this program has not called `prepare` first in its `main`, and there is no \
         `opcell-compile` beside it or on the PATH. Call it, or build the program `opcell-compile` of the crate `opcell-sandbox` and put it there, \
         or choose `CompileMode::TrustedInProcess` for plugins that you trust as your own code"
    )]
    NoCompiler,
    /// This process was started to compile one component, and its `main` has not called `prepare`.
    #[error(
        "this process was started to compile a component and runs a program that is not prepared for that: call `prepare` \
         first in its `main`"
    )]
    CompileChild,
    /// The engine refuses its configuration.
    #[error("cannot build the engine: {0}")]
    Engine(String),
    /// The clock thread cannot be started.
    #[error("cannot start the clock thread: {0}")]
    Ticker(std::io::Error),
    /// The cache directory is not safe to use.
    #[error(transparent)]
    Cache(#[from] crate::cache::CacheError),
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_failure_is_retried_unless_the_plugin_says_that_it_stays() {
        let retriable = |details| {
            let failure = Failure::new(Source::Plugin, "empty", "nothing there");
            Failure::from(CellError::PluginFailure(failure.with_details(Value::from(details)))).retriable
        };
        assert!(retriable(json!({})) && retriable(json!({"retriable": true})) && retriable(json!("false")));
        assert!(!retriable(json!({"retriable": false})));
    }
}
