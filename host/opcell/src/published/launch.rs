//! The ways to reach a published server: a package that a package manager installs, or an address.

use super::{
    SHOWN_BYTES,
    document::{InputText, PackageText, RemoteText},
    packages::{is_exact, is_package},
    values::{GivenValues, argument_of, filled, plain},
};
use opcell_types::text::one_line;

/// A way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A program of this machine.
    Program {
        /// The package manager that installs the package in the folder of the server when it is added: what starts the
        /// package then comes after the first word of the command.
        manager: PackageManager,
        /// The package for its manager, such as `NAME@VERSION`.
        install: String,
        /// The program and its arguments, for the folder of the server.
        command: Vec<String>,
        /// The package with its version, such as `npm weather@1.2.3`.
        package: String,
        /// Variables that it is given from the environment.
        variables: Vec<Variable>,
    },
    /// An address.
    Remote {
        /// The URL.
        url: String,
        /// The header that carries a secret.
        credential: Option<RemoteCredential>,
    },
}

/// The program that installs a package. It runs once, when the server is added: a server that fetched its package at
/// each start would need the network and could not be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackageManager {
    /// `npm`, for packages of npmjs.org.
    Npm,
    /// `pip`, for packages of PyPI.
    Pip,
}

impl PackageManager {
    /// The name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
        }
    }

    /// The program that a document may name to start such a package, which is not used.
    fn hint(self) -> &'static str {
        match self {
            Self::Npm => "npx",
            Self::Pip => "uvx",
        }
    }
}

/// A variable of the environment that a server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The publisher's words, printable.
    pub description: String,
    /// `true` if the server does not work without it.
    pub required: bool,
    /// `true` if it is a secret.
    pub secret: bool,
    /// The value that the publisher wants, if it is not the user's.
    pub expected: Option<String>,
}

/// A header whose secret comes from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteCredential {
    /// The header's name, in lower case.
    pub header: String,
    /// The text before the secret.
    pub prefix: String,
    /// The variable of the environment.
    pub variable: String,
}

pub(super) fn program(package: &PackageText, given: &mut GivenValues) -> Result<Launch, String> {
    if package.transport.kind != "stdio" {
        let kind = one_line(&package.transport.kind, SHOWN_BYTES);
        return Err(format!("it speaks `{kind}`; a program that Opcell starts speaks `stdio`"));
    }
    let (manager, hosts) = match package.registry_type.as_str() {
        "npm" => (PackageManager::Npm, ["https://registry.npmjs.org", "https://registry.npmjs.org/"]),
        "pypi" => (PackageManager::Pip, ["https://pypi.org", "https://pypi.org/"]),
        other => {
            let other = one_line(other, SHOWN_BYTES);
            return Err(format!("it is of the registry `{other}`; `npm` and `pypi` are known here"));
        }
    };
    let runner = manager.name();
    if let Some(base) = package.registry_base_url.as_deref().filter(|base| !hosts.contains(base)) {
        return Err(format!("it comes from `{}`, and `{runner}` from {}", one_line(base, SHOWN_BYTES), hosts[0]));
    }
    if let Some(hint) = package.runtime_hint.as_deref().filter(|hint| *hint != manager.hint()) {
        let known = manager.hint();
        return Err(format!("it is started with `{}`; `{known}` is known here", one_line(hint, SHOWN_BYTES)));
    }
    if package.file_sha256.is_some() {
        return Err(format!("it names the digest of its file, which `{runner}` does not check"));
    }
    let identifier = &package.identifier;
    if !is_package(identifier, manager == PackageManager::Npm) {
        return Err("this is not the name of a package".to_owned());
    }
    let version = package.version.as_deref().unwrap_or("latest");
    if !is_exact(version) {
        let version = one_line(version, SHOWN_BYTES);
        return Err(format!("its version `{version}` is not an exact one, so that another one could start tomorrow"));
    }
    // Some of them name another package, or another place to take it from.
    if !package.runtime_arguments.is_empty() {
        let hint = manager.hint();
        return Err(format!("it asks for arguments of `{hint}`, with which something else could start"));
    }
    let (program, install) = match manager {
        PackageManager::Npm => ("node", format!("{identifier}@{version}")),
        PackageManager::Pip => ("python3", format!("{identifier}=={version}")),
    };
    let mut command = vec![program.to_owned()];
    for argument in &package.package_arguments {
        command.extend(argument_of(argument, given)?);
    }
    let variables: Result<Vec<Variable>, String> = package.environment_variables.iter().map(variable).collect();
    let package = format!("{} {identifier}@{version}", package.registry_type);
    Ok(Launch::Program { manager, install, command, package, variables: variables? })
}

fn variable(input: &InputText) -> Result<Variable, String> {
    let name = input.name.clone().unwrap_or_default();
    if !is_variable(&name) {
        return Err(format!("`{}` is not a name of a variable of the environment", one_line(&name, SHOWN_BYTES)));
    }
    let expected = input.value.clone().or_else(|| input.default.clone());
    Ok(Variable {
        name,
        description: one_line(input.description.as_deref().unwrap_or_default(), SHOWN_BYTES),
        required: input.is_required,
        secret: input.is_secret,
        expected: expected.map(|value| one_line(&value, SHOWN_BYTES)),
    })
}

fn is_variable(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn address(remote: &RemoteText, given: &mut GivenValues) -> Result<Launch, String> {
    if remote.kind != "streamable-http" {
        return Err(format!("it speaks `{}`; `streamable-http` is known here", one_line(&remote.kind, SHOWN_BYTES)));
    }
    let url = plain(filled(&remote.url, &remote.variables, given)?, "url")?;
    if !url.starts_with("https://") {
        return Err("it is not an address of `https`".to_owned());
    }
    let credential = match remote.headers.as_slice() {
        [] => None,
        [only] => Some(credential(only)?),
        more => return Err(format!("it asks for {} headers; one is sent, with a secret", more.len())),
    };
    Ok(Launch::Remote { url, credential })
}

/// The header that carries a secret: `Bearer {token}`, or nothing but the secret.
fn credential(header: &InputText) -> Result<RemoteCredential, String> {
    let name = header.name.clone().unwrap_or_default().to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(format!("`{}` is not a name of a header", one_line(&name, SHOWN_BYTES)));
    }
    let (prefix, of) = match header.value.as_deref().map(|value| value.split_once('{')) {
        None => (String::new(), name.clone()),
        Some(Some((prefix, rest))) if rest.ends_with('}') && !rest.trim_end_matches('}').contains(['{', '}']) => {
            (plain(prefix.to_owned(), &name)?, rest.trim_end_matches('}').to_owned())
        }
        Some(_) => return Err(format!("its header `{name}` is not a secret after a prefix")),
    };
    let variable = of.to_ascii_uppercase().replace('-', "_");
    if !is_variable(&variable) {
        return Err(format!("`{}` is not a name of a variable of the environment", one_line(&variable, SHOWN_BYTES)));
    }
    Ok(RemoteCredential { header: name, prefix, variable })
}
