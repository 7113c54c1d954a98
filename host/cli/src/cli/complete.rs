//! Completion in a shell: the names of a project beside commands and options.
//!
//! The script that `opcell completions` prints calls this program at each TAB. A shell puts a candidate on the command
//! line as it is, and documents, plugins and journals from elsewhere choose their names: a name is offered only if
//! every shell takes it literally.

use super::{Failure, Global, args::StoreArgs, explain, journal::Open};
use clap::{Arg, Command, Parser, ValueHint};
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _},
    env::Shells,
};
use opcell::{
    config::{Config, HOST_TOOLS, lock::Lock},
    host::{Host, NewPermissions, UnusablePlugins},
    library::Library,
};
use opcell_types::text::one_line;
use std::{
    ffi::{OsStr, OsString},
    io,
    sync::Arc,
    time::Duration,
};

/// The variable that a script sets to ask for candidates.
const VARIABLE: &str = "OPCELL_COMPLETE";

/// The longest that a person waits for the names of one kind; a plugin that is not compiled yet takes longer.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// The most names that are offered.
const MAX_NAMES: usize = 200;

/// The most bytes of a description beside a name.
const MAX_HELP: usize = 80;

/// The things that a project names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Codes,
    Operations,
    Plugins,
    Runs,
    Servers,
    Tools,
    Workflows,
}

/// A name with its description, which may be empty.
type Named = (String, String);

/// Writes the candidates that a shell asks for, of this command line. Returns `false` if none asks.
pub fn answer(command: impl Fn() -> Command) -> clap::error::Result<bool> {
    let folder = std::env::current_dir().ok();
    let answering =
        CompleteEnv::with_factory(|| with_candidates(command())).var(VARIABLE).bin("opcell").completer("opcell");
    answering.try_complete(std::env::args_os(), folder.as_deref())
}

/// The script that makes a shell ask.
pub fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let shells = Shells::builtins();
    let shell = shells.completer(&shell.to_string()).ok_or_else(|| io::Error::other("no script for this shell"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "opcell", "opcell", "opcell", &mut script)?;
    Ok(script)
}

/// The command line, whose arguments know their candidates.
fn with_candidates(command: Command) -> Command {
    command.mut_args(with_candidates_of).mut_subcommands(with_candidates)
}

fn with_candidates_of(arg: Arg) -> Arg {
    let is_path = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
    match Kind::of(&arg) {
        Some(kind) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| kind.candidates(typed))),
        None if is_path => arg.add(ArgValueCompleter::new(paths)),
        None => arg,
    }
}

impl Kind {
    fn of(arg: &Arg) -> Option<Self> {
        if arg.get_id() == "workflow" {
            return Some(Self::Workflows);
        }
        match arg.get_value_names()?.first()?.as_str() {
            "CODE" => Some(Self::Codes),
            "OPERATION" => Some(Self::Operations),
            "PLUGIN" => Some(Self::Plugins),
            "RUN" => Some(Self::Runs),
            "SERVER" => Some(Self::Servers),
            "TOOL" => Some(Self::Tools),
            "WORKFLOW" => Some(Self::Workflows),
            _ => None,
        }
    }

    fn candidates(self, typed: &OsStr) -> Vec<CompletionCandidate> {
        let Some(start) = typed.to_str() else { return Vec::new() };
        let named = self.names().unwrap_or_default();
        let fitting = named.into_iter().filter(|(name, _)| name.starts_with(start) && is_literal(OsStr::new(name)));
        let mut candidates: Vec<_> = fitting
            .take(MAX_NAMES)
            .map(|(name, help)| {
                let help = (!help.is_empty()).then(|| one_line(&help, MAX_HELP).into());
                CompletionCandidate::new(name).help(help)
            })
            .collect();
        if matches!(self, Self::Workflows | Self::Plugins) {
            // After the names, which have no order of their own.
            candidates.extend(paths(typed).into_iter().map(|path| path.display_order(Some(1))));
        }
        candidates
    }

    /// The names of this kind. Nothing is asked, written or started; what there is no consent to is left out.
    fn names(self) -> Result<Vec<Named>, Failure> {
        let asked = Asked::of(std::env::args_os());
        let runtime = opcell::host::runtime()?;
        let reading = async {
            match self {
                Self::Codes => explain::codes(),
                Self::Operations => operations(&asked).await,
                Self::Plugins => Ok(asked.config()?.plugins.into_keys().map(undescribed).collect()),
                Self::Runs => runs(&asked).await,
                Self::Servers => Ok(asked.config()?.servers.into_keys().map(undescribed).collect()),
                Self::Tools => tools(&asked).await,
                Self::Workflows => Ok(workflows(&asked.config()?)),
            }
        };
        let read = runtime.block_on(async { tokio::time::timeout(MAX_WAIT, reading).await });
        runtime.shutdown_background();
        read.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

/// The options that say where names come from.
#[derive(Parser)]
struct Places {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    store: StoreArgs,
}

/// The words on the command line that say where names come from.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    config: Option<OsString>,
    journal: Option<OsString>,
}

impl Asked {
    /// Reads the words that a shell gives after `--`. Some shells make a word of an equals sign.
    fn of(words: impl Iterator<Item = OsString>) -> Self {
        let mut words = words.skip_while(|word| word != "--").peekable();
        let mut asked = Self::default();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let (option, value) =
                text.split_once('=').map_or((text.as_ref(), None), |(option, value)| (option, Some(value)));
            let place = match option {
                "--config" => &mut asked.config,
                "--journal" => &mut asked.journal,
                _ => continue,
            };
            *place = match value {
                Some(value) => Some(value.into()),
                None => {
                    words.next_if(|word| word == "=");
                    words.next()
                }
            };
        }
        asked
    }

    /// The options that every command has, and the journal, as a command line has them.
    fn parsed(&self) -> Option<Places> {
        let mut words: Vec<OsString> = vec!["opcell".into()];
        for (option, value) in [("--config", &self.config), ("--journal", &self.journal)] {
            words.extend(value.iter().flat_map(|value| [option.into(), value.clone()]));
        }
        Places::try_parse_from(words).ok()
    }

    fn config(&self) -> Result<Config, Failure> {
        let Some(places) = self.parsed() else { return Ok(Config::empty(std::env::current_dir()?)) };
        places.global.config()
    }
}

fn undescribed(name: String) -> Named {
    (name, String::new())
}

fn workflows(config: &Config) -> Vec<Named> {
    let library = Library::read_with_defaults(&config.default_workflows, &config.workflows);
    let described = |(name, read): (Arc<str>, Result<opcell::Workflow, _>)| {
        let help = read.ok().and_then(|workflow| workflow.ir().description.as_deref().map(str::to_owned));
        (name.to_string(), help.unwrap_or_default())
    };
    library.listed().into_iter().map(described).collect()
}

async fn operations(asked: &Asked) -> Result<Vec<Named>, Failure> {
    let mut config = asked.config()?;
    config.journal = None;
    config.lock = config.lock.map(Lock::frozen);
    let builder = Host::builder().config(config).new_permissions(NewPermissions::LeaveOut);
    let host = builder.unusable_plugins(UnusablePlugins::LeaveOut).build().await?;
    Ok(host.catalog().entries().into_iter().map(|entry| (entry.id.to_string(), entry.summary.clone())).collect())
}

async fn tools(asked: &Asked) -> Result<Vec<Named>, Failure> {
    let mut names: Vec<_> = HOST_TOOLS.map(|name| undescribed(name.to_owned())).to_vec();
    names.extend(asked.config()?.tools.into_keys().map(undescribed));
    names.extend(operations(asked).await?);
    Ok(names)
}

/// The runs of the journal, newest first, and the word for the newest.
async fn runs(asked: &Asked) -> Result<Vec<Named>, Failure> {
    let Some(places) = asked.parsed() else { return Ok(Vec::new()) };
    let open = Open::journal(&places.store.reading(&places.global)?).await?;
    let now = open.engine.ports().timer.now().0;
    let runs = open.engine.runs().await?.into_iter().take(MAX_NAMES);
    let described = runs.map(|run| (run.run.to_string(), format!("{}, {}", run.workflow, run.status(now))));
    Ok([("last".to_owned(), "the newest run".to_owned())].into_iter().chain(described).collect())
}

/// The paths that start so.
fn paths(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_offered = |candidate: &CompletionCandidate| is_literal(candidate.get_value());
    PathCompleter::any().complete(typed).into_iter().filter(is_offered).take(MAX_NAMES).collect()
}

/// Returns `true` if every shell takes a word as it is, and no command takes it as an option.
fn is_literal(word: &OsStr) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/:@+-".contains(byte);
    let bytes = word.as_encoded_bytes();
    !bytes.is_empty() && bytes.iter().all(plain) && !bytes.starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn asked(words: &[&str]) -> Asked {
        Asked::of(words.iter().map(OsString::from))
    }

    #[test]
    fn options_before_the_word_say_where_names_come_from() {
        let both = Asked { config: Some("a.toml".into()), journal: Some("runs.db".into()) };
        for words in [
            ["opcell", "--", "opcell", "--config", "a.toml", "runs", "--journal", "runs.db"].as_slice(),
            &["opcell", "--", "opcell", "--config=a.toml", "runs", "--journal=runs.db"],
            &["opcell", "--", "opcell", "--config", "=", "a.toml", "runs", "--journal", "=", "runs.db"],
        ] {
            assert_eq!(asked(words), both);
        }
        assert_eq!(asked(&["opcell", "--", "opcell", "--config"]), Asked::default());
        assert!(both.parsed().is_some());
    }

    #[test]
    fn words_that_a_shell_reads_otherwise_are_not_offered() {
        for word in
            ["a b", "$(id)", "`id`", "a;b", "a|b", "a>b", "~", "a'b", "a\"b", "a\\b", "*", "!1", "-x", "", "é", "a\nb"]
        {
            assert!(!is_literal(OsStr::new(word)), "{word}");
        }
        for word in ["notes", "workflows/hello.md", "text/reverse", "demo.v2", "ann@host:8080"] {
            assert!(is_literal(OsStr::new(word)), "{word}");
        }
    }

    #[test]
    fn every_kind_of_name_has_an_argument_that_takes_it() {
        fn kinds(command: &Command, found: &mut Vec<Kind>) {
            found.extend(command.get_arguments().filter_map(Kind::of));
            command.get_subcommands().for_each(|below| kinds(below, found));
        }
        let mut found = Vec::new();
        kinds(&Cli::command(), &mut found);
        for kind in
            [Kind::Codes, Kind::Operations, Kind::Plugins, Kind::Runs, Kind::Servers, Kind::Tools, Kind::Workflows]
        {
            assert!(found.contains(&kind), "{kind:?}");
        }
    }
}
