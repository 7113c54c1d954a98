//! Skills as resources: each has the URI of its file, `skill://NAME/SKILL.md`, and the files that it names are read by
//! theirs. What only a person or a workflow may name is not among them.

use crate::api::encoded;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use opcell::Host;
use opcell_types::text::cleaned;
use rmcp::{
    ErrorData,
    model::{ReadResourceResult, Resource, ResourceContents},
};

const MARKDOWN: &str = "text/markdown";

/// The skills that a client sees.
pub(super) fn list(host: &Host) -> Vec<Resource> {
    let offered = host.skills().skills().filter(|skill| skill.is_offered());
    let resource = offered.map(|skill| {
        Resource::new(uri(&skill.name, &skill.file), cleaned(&skill.name))
            .with_description(cleaned(&skill.description))
            .with_mime_type(MARKDOWN)
    });
    resource.collect()
}

/// A file of a skill that a client sees. Reads from disk: not for a thread that must not wait.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) fn read(host: &Host, wanted: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let text = format!("there is no resource `{}`; `resources/list` lists the skills", crate::api::shown(wanted));
        ErrorData::resource_not_found(text, None)
    };
    let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let library = host.skills();
    let mut offered = library.skills().filter(|skill| skill.is_offered());
    let skill = offered.find(|skill| wanted.starts_with(&uri(&skill.name, ""))).ok_or_else(unknown)?;
    let path = if wanted == uri(&skill.name, &skill.file) {
        skill.file.clone()
    } else {
        let files = library.resources(&skill.name).map_err(|error| failed(&error))?;
        files.into_iter().find(|file| wanted == uri(&skill.name, file)).ok_or_else(unknown)?
    };
    let bytes = library.read_resource(&skill.name, &path).map_err(|error| failed(&error))?;
    let contents = match String::from_utf8(bytes) {
        Ok(text) if path.ends_with(".md") => ResourceContents::text(text, wanted).with_mime_type(MARKDOWN),
        Ok(text) => ResourceContents::text(text, wanted),
        Err(error) => ResourceContents::blob(STANDARD.encode(error.into_bytes()), wanted),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn uri(name: &str, path: &str) -> String {
    let path: Vec<String> = path.split('/').map(encoded).collect();
    format!("skill://{}/{}", encoded(name), path.join("/"))
}
