//! Servers as registries publish them: `server.json`, the format of the official registry of MCP.
//!
//! A document is untrusted: it names a program that a stranger wrote. Nothing here starts it. What is read is bounded
//! and printable, the version of a package is exact, and what cannot be kept exactly as the document says is refused with
//! a sentence rather than left out.

mod document;
mod launch;
mod packages;
mod pypi;
mod values;

use crate::http::{FetchLimits, HttpClient, HttpRule, Method};
use document::{DetailText, Document, PackageText, RemoteText};
pub use launch::{Launch, PackageManager, RemoteCredential, Variable};
use launch::{address, program};
use opcell_types::{
    TouchLog, Value,
    text::{one_line, printable},
};
pub use packages::program_of;
pub use pypi::{SITE, requirements_of, starter_of};
use serde::Deserialize as _;
pub use values::GivenValues;

/// Bytes of a document.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// Entries of one list of a document.
const MAX_ENTRIES: usize = 64;

/// Bytes of a text for people.
const SHOWN_BYTES: usize = 300;

/// The folder of a server, in its own folder, that it writes to, as its package manager does.
pub const CACHE: &str = ".cache";

/// A server as its publisher describes it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Published {
    /// Its name in the registry, such as `io.github.user/weather`.
    pub name: String,
    /// One sentence, printable.
    pub description: String,
    /// The version of the description.
    pub version: String,
    /// The address of its source, if it names one.
    pub repository: Option<String>,
    packages: Vec<PackageText>,
    remotes: Vec<RemoteText>,
}

impl Published {
    /// Reads a `server.json`, or an entry of a registry.
    ///
    /// # Errors
    /// With a sentence about the document.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err(format!("it has more than {MAX_DOCUMENT_BYTES} bytes"));
        }
        let json: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let detail = match Document::deserialize(&json) {
            Ok(Document::Entry { server } | Document::Detail(server)) => server,
            // An error of either form says nothing: one of the description does.
            Err(_) => {
                let inner = json.get("server").unwrap_or(&json);
                DetailText::deserialize(inner).map_err(|error| {
                    format!("it is not a server.json: {}", one_line(&error.to_string(), SHOWN_BYTES))
                })?
            }
        };
        let is_name = detail.name.split_once('/').is_some_and(|(space, name)| {
            let is_plain = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
            };
            is_plain(space) && is_plain(name)
        });
        if !is_name || detail.name.len() > 200 {
            let name = one_line(&detail.name, SHOWN_BYTES);
            return Err(format!("its name `{name}` is not one such as `io.github.user/weather`"));
        }
        let lists = detail.packages.iter().flat_map(|package| {
            [package.runtime_arguments.len(), package.package_arguments.len(), package.environment_variables.len()]
        });
        let longest = lists.chain([detail.packages.len(), detail.remotes.len()]).max().unwrap_or_default();
        if longest > MAX_ENTRIES {
            return Err(format!("one of its lists has {longest} entries; at most {MAX_ENTRIES} are read"));
        }
        Ok(Self {
            name: detail.name,
            description: printable(&detail.description, SHOWN_BYTES),
            version: one_line(&detail.version, SHOWN_BYTES),
            repository: detail.repository.and_then(|known| known.url).map(|url| one_line(&url, SHOWN_BYTES)),
            packages: detail.packages,
            remotes: detail.remotes,
        })
    }

    /// The first way to reach the server that can be kept: a package before an address.
    ///
    /// # Errors
    /// With a sentence for each way that cannot be.
    pub fn launch(&self, given: &mut GivenValues) -> Result<Launch, Vec<String>> {
        let mut problems = Vec::new();
        for package in &self.packages {
            match program(package, given) {
                Ok(launch) => return Ok(launch),
                Err(why) => problems.push(format!("package `{}`: {why}", one_line(&package.identifier, SHOWN_BYTES))),
            }
        }
        for remote in &self.remotes {
            match address(remote, given) {
                Ok(launch) => return Ok(launch),
                Err(why) => problems.push(format!("address `{}`: {why}", one_line(&remote.url, SHOWN_BYTES))),
            }
        }
        if problems.is_empty() {
            problems.push("it names neither a package nor an address".to_owned());
        }
        Err(problems)
    }
}

/// Fetches a document. `private`: its address may be on this machine or in a private network, and without TLS.
///
/// # Errors
/// With the end of a sentence about the address.
pub async fn fetch(url: &str, private: bool) -> Result<String, String> {
    let parsed = url::Url::parse(url).map_err(|error| error.to_string())?;
    if parsed.scheme() != "https" && !private {
        return Err("it is not an address of `https`, so that anyone on the way could change it".to_owned());
    }
    let origin = parsed.origin().ascii_serialization().parse();
    let origin = origin.map_err(|error: crate::http::rule::InvalidOrigin| error.to_string())?;
    let rule = HttpRule { private, ..HttpRule::new(vec![origin], vec![Method::GET]) };
    let limits = FetchLimits { response_bytes: MAX_DOCUMENT_BYTES as u64, ..FetchLimits::default() };
    let arguments = Value::object([("url", Value::from(url))]);
    let answer = HttpClient::new(limits).fetch(&[rule], &arguments, &TouchLog::default()).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.get("status").map(Value::to_json).unwrap_or_default();
    if status != "200" {
        return Err(format!("the answer has the status {status}"));
    }
    let body = answer.get("body").and_then(Value::as_str);
    body.map(str::to_owned).ok_or_else(|| "the answer is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};
    use std::collections::BTreeMap;

    fn document(package: Json) -> String {
        json!({"name": "io.github.user/weather", "description": "Weather.", "version": "1.0.2", "packages": [package]})
            .to_string()
    }

    fn npm(more: Json) -> Json {
        let mut package = json!({"registryType": "npm", "identifier": "@user/weather", "version": "1.0.2", "transport": {"type": "stdio"}});
        for (key, value) in more.as_object().unwrap() {
            package[key] = value.clone();
        }
        package
    }

    fn launch(text: &str, given: &[(&str, &str)]) -> Result<Launch, Vec<String>> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Published::read(text).unwrap().launch(&mut GivenValues::new(given))
    }

    #[test]
    fn a_package_becomes_a_command_with_its_exact_version() {
        let package = npm(json!({
            "runtimeHint": "npx",
            "packageArguments": [
                {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"]},
                {"type": "positional", "valueHint": "place", "isRequired": true, "description": "Where."},
                {"type": "positional", "value": "--in={folder}/x{y}", "variables": {"folder": {"default": "/tmp"}}},
                {"type": "named", "name": "--quiet"},
            ],
            "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true, "description": "a\u{1b}b"}],
        }));
        let entry =
            json!({"server": serde_json::from_str::<Json>(&document(package)).unwrap(), "_meta": {}}).to_string();
        let Launch::Program { install, command, package, variables, .. } =
            launch(&entry, &[("place", "Rome; rm -rf /"), ("units", "imperial")]).unwrap()
        else {
            unreachable!()
        };
        assert_eq!(command, ["node", "--units=imperial", "Rome; rm -rf /", "--in=/tmp/x{y}"]);
        assert_eq!((install.as_str(), package.as_str()), ("@user/weather@1.0.2", "npm @user/weather@1.0.2"));
        let [key] = variables.as_slice() else { unreachable!() };
        assert_eq!((key.name.as_str(), key.required, key.secret), ("KEY", true, true));
        assert!(!key.description.contains('\u{1b}'));
        let pypi =
            json!({"registryType": "pypi", "identifier": "weather", "version": "2.0", "transport": {"type": "stdio"}});
        let Launch::Program { manager, install, command, .. } = launch(&document(pypi), &[]).unwrap() else {
            unreachable!()
        };
        assert_eq!((manager, install.as_str()), (PackageManager::Pip, "weather==2.0"));
        assert_eq!(command, ["python3"]);
    }

    #[test]
    fn values_that_are_missing_and_those_that_nothing_asks_for_are_named() {
        let place = json!({"type": "positional", "valueHint": "place", "isRequired": true});
        let entry = document(npm(json!({"packageArguments": [place]})));
        let mut given = GivenValues::new(BTreeMap::from([("plcae".to_owned(), "Rome".to_owned())]));
        Published::read(&entry).unwrap().launch(&mut given).unwrap_err();
        assert_eq!((given.missing(), given.unused()), (["place".to_owned()].as_slice(), vec!["plcae"]));
        assert_eq!(given.asked().collect::<Vec<_>>(), ["place"]);
    }

    #[test]
    fn a_document_that_would_not_start_as_it_says_is_refused_with_a_sentence() {
        let argument = |argument: Json| json!({"packageArguments": [argument]});
        for (more, sentence) in [
            (json!({"version": "latest"}), "is not an exact one"),
            (json!({"version": "^1.0.2"}), "is not an exact one"),
            (json!({"version": "1.x"}), "is not an exact one"),
            (json!({"version": "1"}), "is not an exact one"),
            (json!({"version": null}), "is not an exact one"),
            (json!({"identifier": "--call=rm"}), "not the name of a package"),
            (json!({"identifier": "https://evil.example/x.tgz"}), "not the name of a package"),
            (json!({"identifier": "../weather"}), "not the name of a package"),
            (json!({"registryType": "oci"}), "`npm` and `pypi` are known"),
            (json!({"registryBaseUrl": "https://evil.example"}), "comes from `https://evil.example`"),
            (json!({"runtimeHint": "docker"}), "started with `docker`"),
            (json!({"fileSha256": "00"}), "does not check"),
            (json!({"runtimeArguments": [{"type": "positional", "value": "evil"}]}), "something else could start"),
            (
                json!({"registryType": "pypi", "identifier": "weather", "runtimeArguments":
                    [{"type": "named", "name": "--from", "value": "git+https://evil.example/x"}]}),
                "something else could start",
            ),
            (json!({"transport": {"type": "sse"}}), "speaks `sse`"),
            (
                argument(json!({"type": "positional", "valueHint": "place", "isRequired": true})),
                "needs a value for `place`",
            ),
            (argument(json!({"type": "named", "name": "--key", "isSecret": true})), "is a secret"),
            (argument(json!({"type": "named", "name": "--u", "default": "x", "choices": ["y"]})), "is one of `y`"),
            (argument(json!({"type": "positional", "value": "a\u{202e}b"})), "cannot be printed"),
            (argument(json!({"type": "odd"})), "neither `positional` nor `named`"),
            (json!({"environmentVariables": [{"name": "A=B"}]}), "not a name of a variable"),
        ] {
            let refused = launch(&document(npm(more.clone())), &[]).unwrap_err();
            assert!(refused.len() == 1 && refused[0].contains(sentence), "{more}: {refused:?}");
        }
        let long: Vec<Json> = (0..=MAX_ENTRIES).map(|_| json!({"name": "A"})).collect();
        for (text, sentence) in [
            ("{".to_owned(), "not JSON"),
            ("{}".to_owned(), "not a server.json: missing field `name`"),
            (document(json!({"registryType": "npm"})), "missing field `identifier`"),
            (document(npm(json!({"environmentVariables": long}))), "at most 64"),
            (document(npm(json!({}))).replace("io.github.user/weather", "weather"), "is not one such as"),
            (" ".repeat(MAX_DOCUMENT_BYTES + 1), "bytes"),
        ] {
            let refused = Published::read(&text).unwrap_err();
            assert!(refused.contains(sentence), "{refused}");
        }
    }

    #[test]
    fn an_address_comes_with_its_one_credential() {
        let of = |remote: Json| {
            let text = json!({"name": "a/b", "version": "1.0", "remotes": [remote]}).to_string();
            launch(&text, &[("host", "tools")])
        };
        let found =
            of(json!({"type": "streamable-http", "url": "https://{host}.example/mcp", "variables": {"host": {}},
            "headers": [{"name": "Authorization", "value": "Bearer {api-token}", "isSecret": true}]}));
        let credential = RemoteCredential {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            variable: "API_TOKEN".to_owned(),
        };
        let url = "https://tools.example/mcp".to_owned();
        assert_eq!(found, Ok(Launch::Remote { url, credential: Some(credential) }));
        for (remote, sentence) in [
            (json!({"type": "sse", "url": "https://a.example"}), "speaks `sse`"),
            (json!({"type": "streamable-http", "url": "http://a.example"}), "not an address of `https`"),
            (
                json!({"type": "streamable-http", "url": "https://a.example", "headers": [{"name": "a"}, {"name": "b"}]}),
                "2 headers",
            ),
            (
                json!({"type": "streamable-http", "url": "https://a.example", "headers": [{"name": "a", "value": "b"}]}),
                "not a secret",
            ),
        ] {
            let refused = of(remote).unwrap_err();
            assert!(refused[0].contains(sentence), "{refused:?}");
        }
    }

    #[test]
    fn a_value_that_nothing_asks_for_is_known() {
        let mut given = GivenValues::new([("plcae".to_owned(), "Rome".to_owned())].into());
        Published::read(&document(npm(json!({})))).unwrap().launch(&mut given).unwrap();
        assert_eq!(given.unused(), ["plcae"]);
    }
}
