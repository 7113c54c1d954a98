//! Which repository a call is about.

use opcell_sdk::{Failure, files};

/// `owner/name`.
#[derive(Debug, PartialEq)]
pub struct Repository {
    pub owner: String,
    pub name: String,
}

impl Repository {
    /// The given one, or else the remote `origin` of the granted workspace.
    pub fn find(given: Option<&str>) -> Result<Self, Failure> {
        if let Some(given) = given {
            return Self::parse(given).ok_or_else(|| {
                Failure::new("github/invalid-repo", format!("{given:?} is not a repository; expected owner/name"))
            });
        }
        let config = files::open_root("workspace")?.read_to_string(".git/config")?;
        origin(&config).and_then(Self::of_remote).ok_or_else(|| {
            let message = "the workspace's remote `origin` names no repository; pass `repo` as owner/name";
            Failure::new("github/no-repo", message)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let valid = |part: &str| {
            let characters = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            !part.is_empty() && characters && part != "." && part != ".."
        };
        let (owner, name) = text.split_once('/')?;
        (valid(owner) && valid(name)).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// From `https://host/owner/name.git`, `ssh://git@host/owner/name` or `git@host:owner/name.git`.
    fn of_remote(url: &str) -> Option<Self> {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.split_once('/')?.1,
            None => url.split_once(':')?.1,
        };
        let path = path.trim_end_matches('/');
        Self::parse(path.strip_suffix(".git").unwrap_or(path))
    }
}

/// The URL of the remote `origin` in a git configuration.
fn origin(config: &str) -> Option<&str> {
    let mut lines = config.lines().map(str::trim);
    lines.find(|line| *line == "[remote \"origin\"]")?;
    let section = lines.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "url").map(|(_, url)| url.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::testing::Host;

    #[test]
    fn a_repository_is_read_from_its_remote() {
        for url in [
            "https://github.com/acme/rocket.git",
            "https://github.com/acme/rocket/",
            "git@github.com:acme/rocket.git",
            "ssh://git@github.com/acme/rocket",
        ] {
            let config = format!(
                "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = git@x:a/b\n[remote \"origin\"]\n\tfetch = x\n\turl = {url}\n"
            );
            let _host = Host::new().strict().files("workspace", [(".git/config", config)]).install();

            let found = Repository::find(None).unwrap();

            assert_eq!((found.owner.as_str(), found.name.as_str()), ("acme", "rocket"), "{url}");
        }
    }

    #[test]
    fn a_workspace_without_a_remote_asks_for_the_repository() {
        let _host = Host::new().strict().files("workspace", [(".git/config", "[core]\n")]).install();

        assert_eq!(Repository::find(None).unwrap_err().reason, "github/no-repo");
    }

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        for text in ["", "acme", "acme/", "acme/a/b", "acme/..", "acme/a b", "acme/a?b"] {
            assert_eq!(Repository::find(Some(text)).unwrap_err().reason, "github/invalid-repo", "{text}");
        }
    }
}
