//! The languages of programs, and a host whose plugin runs one.

use crate::cli::{Failure, Global, Terminal, args::ProgramLanguage, host};
use opcell::{
    Capability, Grant, Host, PluginConfig, Remedy, builtin, config::Config, places::Places, remedy,
    services::HTTP_FETCH,
};
use opcell_ir::{Diagnostic, ir::CodeMode};
use opcell_types::Value;

/// The operations of the plugins.
const RUN_JAVASCRIPT: &str = "code/run";

const RUN_PYTHON: &str = "python/run";

impl ProgramLanguage {
    pub(super) fn mode(self) -> CodeMode {
        match self {
            Self::Javascript => CodeMode::Javascript,
            Self::Python => CodeMode::Python,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Javascript => "JavaScript",
            Self::Python => "Python",
        }
    }

    /// The operation that runs a program, with its arguments.
    pub(super) fn call(self, source: String, input: Value) -> (&'static str, Value) {
        let source = [("source", Value::from(source)), ("input", input)];
        let (run, named) = match self {
            Self::Javascript => (RUN_JAVASCRIPT, Some(("language", Value::from("javascript")))),
            Self::Python => (RUN_PYTHON, None),
        };
        (run, Value::object(named.into_iter().chain(source)))
    }

    /// The plugin whose cells run its programs.
    pub(super) fn plugin(self) -> &'static str {
        match self {
            Self::Javascript => builtin::CODE,
            Self::Python => builtin::PYTHON,
        }
    }
}

/// A host whose plugin for programs is granted these tools as well, and whether the project has the plugin itself.
pub(super) async fn ready(
    global: &Global,
    language: ProgramLanguage,
    grants: &[String],
    terminal: &Terminal,
) -> Result<(Host, bool), Failure> {
    let config = global.trusted()?;
    let has_plugin = config.plugins.contains_key(language.plugin());
    let config = with_program(config, language, grants)?;
    let named = |name: &str| name == HTTP_FETCH || config.tools.contains_key(name);
    let operations: Vec<_> = grants.iter().filter(|name| !named(name)).collect();
    let host = host(config, terminal).await?;
    for name in operations {
        if host.catalog().find(name).is_err() {
            let message = format!("the project has no tool and no operation `{name}`");
            let help = "`opcell tools list` and `opcell op list` show what there is".to_owned();
            return Err(Diagnostic::error("unknown-capability", message).help(help).into());
        }
    }
    Ok((host, has_plugin))
}

/// The remedy of a denial of a program: a grant of the command for a tool, and for the rest one of the plugin, which
/// the project has to have first.
pub(super) fn advice(remedy: &Remedy, ran: &str, has_plugin: bool) -> Option<String> {
    let command = remedy::render(remedy)?;
    match remedy {
        Remedy::Grant { plugin, capability: Capability::Tool, name, .. }
            if **plugin == *builtin::CODE || **plugin == *builtin::PYTHON =>
        {
            Some(format!("{ran} --grant {}", remedy::shell_word(name)))
        }
        remedy if !has_plugin && remedy.plugin() == Some(builtin::CODE) => {
            Some(format!("add `[plugins.code]` with `source = \"builtin:code\"` to opcell.toml, then: {command}"))
        }
        _ => Some(command),
    }
}

/// The project with the plugin, which is granted these tools besides what the project grants it.
fn with_program(mut config: Config, language: ProgramLanguage, tools: &[String]) -> Result<Config, Failure> {
    let name = language.plugin();
    let own = match config.plugins.shift_remove(name) {
        Some(plugin) if plugin.builtin_component().is_some() => Some(plugin),
        Some(plugin) => {
            let message = format!("the project's plugin `{}` is another one: {}", plugin.name, plugin.path.display());
            let help = "give that plugin another name in the project file";
            return Err(Diagnostic::error("duplicate-plugin", message).help(help).into());
        }
        None if language == ProgramLanguage::Python => Some(python()?),
        None => PluginConfig::builtin(name),
    };
    if let Some(plugin) = own {
        let plugin = tools.iter().fold(plugin, |plugin, tool| plugin.grant(Grant::tool(tool)));
        config.plugins.insert(name.to_owned(), plugin);
    }
    Ok(config)
}

/// The runtime for Python, which the user has installed.
fn python() -> Result<PluginConfig, Failure> {
    PluginConfig::python(&Places::of_user()).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Diagnostic::error("missing-runtime", "the runtime for Python is not installed")
            .help("`opcell code install python` builds it, once for all projects of this user")
            .into(),
        _ => Diagnostic::error("unreadable", format!("the runtime for Python cannot be read: {error}")).into(),
    })
}
