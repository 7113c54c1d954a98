//! The commands for the follow-ups that the library names.

use opcell::{FollowUp, remedy};

/// Installs the commands in the library.
pub fn install() {
    opcell::layers::types::follow_up::install(words);
}

fn words(follow_up: &FollowUp) -> String {
    let of = |command: &str, name: &Option<String>| match name {
        Some(name) => format!("`opcell {command} {name}`"),
        None => format!("`opcell {command}`"),
    };
    match follow_up {
        FollowUp::ShowRun(run) => format!("`opcell runs show {run}`"),
        FollowUp::ListRuns => "`opcell runs list`".to_owned(),
        FollowUp::ExportRun(run) => format!("`opcell runs export {run}`"),
        FollowUp::ResumeRun(run) => format!("`opcell runs resume {run}`"),
        FollowUp::AdoptRun(run) => format!("`opcell runs adopt {run}`"),
        FollowUp::AdoptRuns => "`opcell runs adopt --all`".to_owned(),
        FollowUp::TrustClock => "`opcell runs trust-clock`".to_owned(),
        FollowUp::ApproveRun => "`opcell runs approve`".to_owned(),
        FollowUp::DiffPlugin(name) => of("plugin diff", name),
        FollowUp::AcceptPlugin(name) => of("plugin update", name),
        FollowUp::FetchPlugin(name) => format!("`opcell plugin fetch {name}`"),
        FollowUp::PushPlugin => "`opcell plugin push`".to_owned(),
        FollowUp::NewPlugin(language) => format!("`opcell plugin new NAME --lang {}`", language.unwrap_or("LANG")),
        FollowUp::BuildPlugin(path) => of("plugin build", path),
        FollowUp::AddTyped => "`opcell plugin add FILE --typed`".to_owned(),
        FollowUp::InstallPython => "`opcell code install python`".to_owned(),
        FollowUp::CheckProject => "`opcell check`".to_owned(),
        FollowUp::ListOperations => "`opcell op list`".to_owned(),
        FollowUp::DiffServer(server) => format!("`opcell mcp diff {server}`"),
        FollowUp::AcceptServer(server) => format!("`opcell mcp update {server}`"),
        FollowUp::ShowTrust => "`opcell trust --show`".to_owned(),
        FollowUp::NameProject(file) => format!("`--config {file}`"),
        FollowUp::NameJournal => "`--journal=PATH`".to_owned(),
        FollowUp::NameComponent => "name its component: `--plugin FILE.wasm`".to_owned(),
        FollowUp::ChoosePrompt(name) => format!("`--prompt {name}`"),
        FollowUp::GiveInputs(names) => {
            let options: Vec<String> = names.iter().map(|name| format!("--input {name}=VALUE")).collect();
            format!("`{}`", options.join(" "))
        }
        FollowUp::Frozen => "this command runs `--locked`".to_owned(),
        FollowUp::AllFindings => "`--json`".to_owned(),
        FollowUp::Allow(denied) => remedy::render(denied).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell::Remedy;

    #[test]
    fn a_follow_up_is_a_command_as_a_person_types_it() {
        assert_eq!(words(&FollowUp::DiffPlugin(None)), "`opcell plugin diff`");
        assert_eq!(words(&FollowUp::DiffPlugin(Some("repo".to_owned()))), "`opcell plugin diff repo`");
        let names = vec!["text".to_owned(), "tone".to_owned()];
        assert_eq!(words(&FollowUp::GiveInputs(names)), "`--input text=VALUE --input tone=VALUE`");
        assert_eq!(words(&FollowUp::Allow(Box::new(Remedy::Nothing))), "");
    }
}
