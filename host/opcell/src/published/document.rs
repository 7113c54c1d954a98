//! `server.json` as its schema has it.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Document {
    /// An entry of a registry has the server's description inside.
    Entry {
        server: DetailText,
    },
    Detail(DetailText),
}

#[derive(Debug, Deserialize)]
pub(super) struct DetailText {
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub packages: Vec<PackageText>,
    #[serde(default)]
    pub remotes: Vec<RemoteText>,
    pub repository: Option<RepositoryText>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RepositoryText {
    pub url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PackageText {
    pub registry_type: String,
    pub registry_base_url: Option<String>,
    pub identifier: String,
    pub version: Option<String>,
    pub file_sha256: Option<String>,
    pub runtime_hint: Option<String>,
    pub transport: TransportText,
    #[serde(default)]
    pub runtime_arguments: Vec<ArgumentText>,
    #[serde(default)]
    pub package_arguments: Vec<ArgumentText>,
    #[serde(default)]
    pub environment_variables: Vec<InputText>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct TransportText {
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RemoteText {
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
    #[serde(default)]
    pub headers: Vec<InputText>,
    #[serde(default)]
    pub variables: BTreeMap<String, InputText>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArgumentText {
    #[serde(rename = "type")]
    pub kind: String,
    pub value_hint: Option<String>,
    #[serde(flatten)]
    pub input: InputText,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InputText {
    pub name: Option<String>,
    pub description: Option<String>,
    pub value: Option<String>,
    pub default: Option<String>,
    pub is_required: bool,
    pub is_secret: bool,
    pub choices: Vec<String>,
    pub variables: BTreeMap<String, InputText>,
}
