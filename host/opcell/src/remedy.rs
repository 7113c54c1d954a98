//! Remedies as commands and settings of Opcell: what a person types or writes to change a refusal.

use opcell_engine::approval::CallArguments;
use opcell_sandbox::LoadError;
use opcell_types::{
    Access, Denial, FollowUp, Remedy, Value,
    denial::{Capability, HttpScope},
    text::{cleaned, printable},
};
use std::{fmt::Write as _, path::Path};

/// The remedy as a clause that can follow "to allow it: ". `None` when nothing can allow it.
#[must_use]
pub fn render(remedy: &Remedy) -> Option<String> {
    Some(match remedy {
        // Nothing is granted to one script alone.
        Remedy::Grant { plugin, capability, name, .. } if let Some(skill) = skill_of(plugin) => {
            format!("add {} {} to [skills.{skill}.grants] in opcell.toml", capability.word(), shell_word(name))
        }
        Remedy::AllowHttp { scope: HttpScope::Plugin(plugin), origin, .. } if let Some(skill) = skill_of(plugin) => {
            format!("add a rule for {origin} to [[skills.{skill}.grants.http]] in opcell.toml")
        }
        Remedy::Grant { plugin, capability, name, access } => {
            let files = *capability == Capability::Files;
            let target = shell_word(&if files { format!("{name}=PATH") } else { name.clone() });
            let write = if *access == Some(Access::ReadWrite) { " --write" } else { "" };
            format!("opcell plugin grant {plugin} {} {target}{write}", capability.word())
        }
        Remedy::AllowHttp { scope, origin, method, private } => match scope {
            HttpScope::Plugin(plugin) => {
                let method = method.as_deref().map(|method| format!(" --method {method}")).unwrap_or_default();
                let private = if *private { " --private" } else { "" };
                format!("opcell plugin grant {plugin} http {}{method}{private}", shell_word(origin))
            }
            HttpScope::Tool(tool) => format!("add a rule for {origin} to `tools.{tool}.http` in opcell.toml"),
            _ => format!("add a rule for {origin} to [[sessions.http]] in opcell.toml"),
        },
        Remedy::CoverPath { plugin, name } => {
            format!("add a pattern to `plugins.{plugin}.files.{name}` in opcell.toml")
        }
        Remedy::ControlFiles { plugin: Some(plugin), name } => {
            format!("set `control-files = true` under [plugins.{plugin}.grants.files.{name}] in opcell.toml")
        }
        Remedy::ControlFiles { plugin: None, name } => {
            format!("set `control-files = true` under [sessions.files.{name}] in opcell.toml")
        }
        Remedy::OpenFolder => "add a folder to [sessions.files] in opcell.toml".to_owned(),
        Remedy::WriteFolder { name } => {
            format!("set `access = \"read-write\"` under [sessions.files.{name}] in opcell.toml")
        }
        Remedy::Nothing => return None,
        other => other.to_string(),
    })
}

/// The skill of a plugin that is one of its scripts: `skill.NAME.SCRIPT`.
fn skill_of(plugin: &str) -> Option<&str> {
    plugin.strip_prefix("skill.")?.split_once('.').map(|(skill, _)| skill)
}

/// The command that helps with a finding of this code, where the finding itself has no help.
#[must_use]
pub fn of_code(code: &str) -> Option<String> {
    match code {
        "unknown-operation" => Some(format!("{} lists the operations", FollowUp::ListOperations)),
        _ => None,
    }
}

/// Returns `true` if what a remedy gives is what a denial says was refused. A journal may come from elsewhere, and a
/// person reads the one and allows the other.
#[must_use]
pub fn fits(denial: &Denial) -> bool {
    match &denial.remedy {
        Remedy::Grant { capability, name, .. } => {
            denial.capability == Denial::of(capability.word(), name, "", Remedy::Nothing).capability
        }
        Remedy::AllowHttp { origin, method, private: false, .. } => {
            let asked = denial.capability.strip_prefix("http ").and_then(|request| request.split_once(' '));
            asked.is_some_and(|(asked, to)| to == origin && method.as_deref().is_none_or(|method| method == asked))
        }
        Remedy::AllowHttp { origin, .. } => denial.capability.split(' ').any(|word| word == origin),
        // The call that is made is the one that the refusal shows.
        Remedy::ApproveCall { tool, arguments, .. } => {
            let shown = Value::from_json(arguments).map(|arguments| CallArguments::of(&arguments).text);
            denial.capability == Denial::of("call", tool, "", Remedy::Nothing).capability
                && shown.is_ok_and(|shown| denial.rule.ends_with(&format!(": {}", cleaned(&shown))))
        }
        // Nothing is written for these by a word.
        _ => true,
    }
}

/// A load error with the remedies that would agree to what an upgrade newly asks for.
pub(crate) fn load_error(error: &LoadError) -> String {
    /// Requests that are listed.
    const SHOWN: usize = 20;
    let LoadError::AsksForMore(denials) = error else { return error.to_string() };
    let mut text = "this version requests more than the one before and is not loaded until that is granted:".to_owned();
    for denial in denials.iter().take(SHOWN) {
        let _ = write!(text, "\n  {}: {}", denial.capability, FollowUp::Allow(denial.remedy.clone().into()));
    }
    if let Some(more @ 1..) = denials.len().checked_sub(SHOWN) {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}

/// Returns the remedy that makes a plugin of a file that is not one yet. `None` when no command does.
#[must_use]
pub fn of_load_error(error: &LoadError, path: &Path) -> Option<String> {
    match error {
        LoadError::CoreModule { described: true } => {
            let path = shell_word(&path.display().to_string());
            Some(format!("turn it into a component: {}", FollowUp::BuildPlugin(Some(path))))
        }
        LoadError::CoreModule { described: false } => Some(format!(
            "build it with {} in the plugin's folder; {} makes one",
            FollowUp::BuildPlugin(None),
            FollowUp::NewPlugin(None)
        )),
        LoadError::NotAComponent { .. } if path.extension().is_some_and(|ending| ending == "wat") => {
            let file = path.display().to_string();
            let (text, binary) = (shell_word(&file), shell_word(&path.with_extension("wasm").display().to_string()));
            Some(format!("this is WebAssembly as text; assemble it: `wasm-tools parse {text} -o {binary}`"))
        }
        LoadError::World { .. } => Some(format!(
            "if it was not written for Opcell: {}, or `exports = \"typed\"` in opcell.toml",
            FollowUp::AddTyped
        )),
        _ => None,
    }
}

/// A refusal as one line: what was refused, by which rule, and what would allow it.
#[must_use]
pub fn explain(denial: &Denial) -> String {
    match render(&denial.remedy) {
        Some(remedy) => format!("{denial}; to allow it: {remedy}"),
        None => denial.to_string(),
    }
}

/// The refusals that a receipt lists.
#[must_use]
pub fn of_receipt(receipt: &Value) -> Vec<Denial> {
    let listed = receipt.get("denials").and_then(Value::as_array).unwrap_or_default();
    listed.iter().filter_map(|denial| denial.to().ok()).collect()
}

/// A word of a command that people copy: a guest chose it, so it must stay one word in their shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let text = printable(text, 300);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/=:@%+-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    fn grant(capability: Capability, name: &str, access: Option<Access>) -> String {
        render(&Remedy::Grant { plugin: "triage".into(), capability, name: name.to_owned(), access }).unwrap()
    }

    #[test]
    fn a_grant_is_a_command_to_copy() {
        assert_eq!(grant(Capability::Tool, "http.fetch", None), "opcell plugin grant triage tool http.fetch");
        let write = Some(Access::ReadWrite);
        assert_eq!(grant(Capability::Files, "out", write), "opcell plugin grant triage files out=PATH --write");
        assert_eq!(grant(Capability::Files, "repo", Some(Access::Read)), "opcell plugin grant triage files repo=PATH");
    }

    #[test]
    fn a_remedy_that_gives_something_else_than_was_refused_does_not_fit() {
        let http = |capability: &str, origin: &str, method: Option<&str>| {
            let scope = HttpScope::Plugin("p".into());
            let method = method.map(str::to_owned);
            let remedy = Remedy::AllowHttp { scope, origin: origin.to_owned(), method, private: false };
            fits(&Denial::new(capability, "a rule", remedy))
        };
        assert!(http("http GET https://api.github.com", "https://api.github.com", Some("GET")));
        assert!(http("http GET https://api.github.com", "https://api.github.com", None));
        assert!(!http("http GET https://api.github.com", "https://evil.example", Some("GET")));
        assert!(!http("http GET https://api.github.com", "https://api.github.com", Some("DELETE")));
        assert!(!http("tool https://evil.example", "https://evil.example", None));
        let tool = |capability: &str, name: &str| {
            let capability_of = Capability::Tool;
            let remedy =
                Remedy::Grant { plugin: "p".into(), capability: capability_of, name: name.to_owned(), access: None };
            fits(&Denial::new(capability, "a rule", remedy))
        };
        assert!(tool("tool http.fetch", "http.fetch"));
        assert!(!tool("tool http.fetch", "bash") && !tool("skill http.fetch", "http.fetch"));
        let long = "x".repeat(5_000);
        assert!(tool(&format!("tool {long}"), &long), "a name is cut in both");
        let call = |arguments: &str| {
            let shown = CallArguments::of(&Value::from_json(r#"{"path":"a"}"#).unwrap()).text;
            let (plugin, tool, arguments) = ("p".into(), "write".to_owned(), arguments.to_owned());
            let remedy = Remedy::ApproveCall { plugin, tool, arguments };
            fits(&Denial::of(
                "call",
                "write",
                format!("a person has to approve it (always): {}", cleaned(&shown)),
                remedy,
            ))
        };
        assert!(call(r#"{"path":"a"}"#));
        assert!(!call(r#"{"path":"b"}"#) && !call("no JSON"));
    }

    #[test]
    fn a_command_stays_one_command_whatever_the_name() {
        let command = grant(Capability::Tool, "x; rm '~'", None);
        assert_eq!(command, r"opcell plugin grant triage tool 'x; rm '\''~'\'''");
    }

    #[test]
    fn a_request_is_allowed_where_its_rules_are() {
        let of = |scope| {
            let origin = "https://a.example".to_owned();
            render(&Remedy::AllowHttp { scope, origin, method: Some("POST".to_owned()), private: true }).unwrap()
        };
        let plugin = HttpScope::Plugin("triage".into());
        assert_eq!(of(plugin), "opcell plugin grant triage http https://a.example --method POST --private");
        assert!(of(HttpScope::Sessions).contains("[[sessions.http]]"));
        assert!(of(HttpScope::Tool("web".into())).contains("`tools.web.http`"));
        assert_eq!(render(&Remedy::Nothing), None);
    }
}
