//! The grants of a component that is given as a file while it is measured.

use crate::cli::Failure;
use opcell::FilesGrant;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_sandbox::Manifest;

/// A directory for the plugin.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The name under which the plugin opens it.
    pub name: String,
    /// The directory.
    pub files: FilesGrant,
}

/// `files:NAME=PATH`, `files-write:NAME=PATH`.
pub fn parse(text: &str) -> Result<Granted, String> {
    const EXPECTED: &str = "expected `files:NAME=PATH` or `files-write:NAME=PATH`";
    let (kind, rest) = text.split_once(':').ok_or(EXPECTED)?;
    let (name, path) =
        rest.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty()).ok_or(EXPECTED)?;
    let files = match kind {
        "files" => FilesGrant::read(path),
        "files-write" => FilesGrant::read_write(path),
        "tool" | "skill" | "http" => {
            return Err(format!("no host serves a {kind} while a plugin is measured; {EXPECTED}"));
        }
        _ => return Err(EXPECTED.to_owned()),
    };
    Ok(Granted { name: name.to_owned(), files })
}

impl Granted {
    /// A grant of what is not asked for grants nothing, and is a slip.
    pub fn check(&self, manifest: &Manifest) -> Result<(), Failure> {
        if manifest.files.iter().any(|asked| asked.name == self.name) {
            return Ok(());
        }
        let asked = || manifest.files.iter().map(|asked| asked.name.as_str());
        let message = format!("the plugin does not ask for files `{}`", self.name);
        let help = match did_you_mean(&self.name, asked()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if manifest.files.is_empty() => "it asks for no files".to_owned(),
            None => format!("it asks for: {}", asked().collect::<Vec<_>>().join(", ")),
        };
        Err(Diagnostic::error("not-asked-for", message).help(help).into())
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_grant_is_a_kind_a_name_and_a_path() {
        let granted = parse("files:workspace=a=b").unwrap();
        assert_eq!((granted.name.as_str(), granted.files.path.to_str()), ("workspace", Some("a=b")));
        for wrong in ["workspace=.", "files:workspace", "files:=.", "dirs:a=b", "tool:http.fetch=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
