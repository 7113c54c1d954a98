//! Which repository a call is about.

use opcell_sdk::{Failure, files};

/// Where github.com serves its REST API.
const GITHUB: &str = "https://api.github.com";

/// A repository and where its API is.
#[derive(Debug, PartialEq)]
pub struct Repository {
    /// The root of the REST API that its host serves.
    pub api: String,
    pub owner: String,
    pub name: String,
}

impl Repository {
    /// The given one, or else the remote `origin` of the granted workspace.
    pub fn find(given: Option<&str>) -> Result<Self, Failure> {
        if let Some(given) = given {
            return Self::parse(given, None).ok_or_else(|| {
                let message = format!("{given:?} is not a repository; expected owner/name or host/owner/name");
                Failure::new("github/invalid-repo", message)
            });
        }
        let config = files::open_root("workspace")?.read_to_string(".git/config")?;
        origin(&config).and_then(Self::of_remote).ok_or_else(|| {
            let message = "the workspace's remote `origin` names no repository; pass `repo` as owner/name";
            Failure::new("github/no-repo", message)
        })
    }

    /// From `owner/name`, of `api` or else github.com, or from `host/owner/name`.
    fn parse(text: &str, api: Option<String>) -> Option<Self> {
        let valid = |part: &str| {
            let characters = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            !part.is_empty() && characters && part != "." && part != ".."
        };
        let (owner, name) = text.split_once('/')?;
        let (api, owner, name) = match (api, name.split_once('/')) {
            (None, Some((second, third))) => (api_of("https", owner)?, second, third),
            (api, _) => (api.unwrap_or_else(|| GITHUB.to_owned()), owner, name),
        };
        (valid(owner) && valid(name)).then(|| Self { api, owner: owner.to_owned(), name: name.to_owned() })
    }

    /// From `https://host/owner/name.git`, `ssh://git@host/owner/name` or `git@host:owner/name.git`.
    fn of_remote(url: &str) -> Option<Self> {
        let (scheme, authority, path) = match url.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_once('/')?;
                (scheme, authority, path)
            }
            None => {
                let (authority, path) = url.split_once(':')?;
                ("ssh", authority, path)
            }
        };
        // What may stand before the host is a user and a password, which belong to git.
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let api = match scheme {
            "http" | "https" => api_of(scheme, host)?,
            // The port of another protocol is not the API's.
            _ => api_of("https", host.split_once(':').map_or(host, |(host, _)| host))?,
        };
        let path = path.trim_end_matches('/');
        Self::parse(path.strip_suffix(".git").unwrap_or(path), Some(api))
    }
}

/// The API of a host: github.com and tenants on ghe.com have one beside them, a GitHub Enterprise Server has it below
/// `/api/v3`.
fn api_of(scheme: &str, host: &str) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let (name, port) = host.split_once(':').unwrap_or((&host, "443"));
    let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if !valid || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match name {
        "github.com" | "www.github.com" | "ssh.github.com" => GITHUB.to_owned(),
        tenant if tenant.ends_with(".ghe.com") => format!("https://api.{tenant}"),
        _ => format!("{scheme}://{host}/api/v3"),
    })
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

            let parts = (found.api.as_str(), found.owner.as_str(), found.name.as_str());
            assert_eq!(parts, ("https://api.github.com", "acme", "rocket"), "{url}");
        }
    }

    #[test]
    fn the_api_is_the_one_of_the_remotes_host() {
        for (url, api) in [
            ("https://forge.example/acme/rocket.git", "https://forge.example/api/v3"),
            ("https://Forge.example:8443/acme/rocket", "https://forge.example:8443/api/v3"),
            ("https://someone:secret@forge.example/acme/rocket", "https://forge.example/api/v3"),
            ("http://forge.example/acme/rocket", "http://forge.example/api/v3"),
            ("git@forge.example:acme/rocket.git", "https://forge.example/api/v3"),
            ("ssh://git@forge.example:2222/acme/rocket", "https://forge.example/api/v3"),
            ("ssh://git@ssh.github.com:443/acme/rocket", "https://api.github.com"),
            ("git@acme.ghe.com:acme/rocket.git", "https://api.acme.ghe.com"),
        ] {
            let found = Repository::of_remote(url).unwrap();

            assert_eq!((found.api.as_str(), found.name.as_str()), (api, "rocket"), "{url}");
        }
        for url in ["/srv/acme/rocket.git", "file:///acme/rocket", "https://a b/acme/rocket", "git@x:acme/a/rocket"] {
            assert_eq!(Repository::of_remote(url), None, "{url}");
        }
    }

    #[test]
    fn a_given_repository_is_on_github_unless_it_names_its_host() {
        assert_eq!(Repository::find(Some("acme/rocket")).unwrap().api, "https://api.github.com");
        assert_eq!(Repository::find(Some("forge.example/acme/rocket")).unwrap().api, "https://forge.example/api/v3");
    }

    #[test]
    fn a_workspace_without_a_remote_asks_for_the_repository() {
        let _host = Host::new().strict().files("workspace", [(".git/config", "[core]\n")]).install();

        assert_eq!(Repository::find(None).unwrap_err().reason, "github/no-repo");
    }

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        for text in ["", "acme", "acme/", "acme/a/b/c", "acme/a/", "acme/..", "acme/a b", "acme/a?b"] {
            assert_eq!(Repository::find(Some(text)).unwrap_err().reason, "github/invalid-repo", "{text}");
        }
    }
}
