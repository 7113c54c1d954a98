//! Skills as resources: each has the URI of its file, `skill://NAME/SKILL.md`, and the files that it names are read by
//! theirs. What only a person or a workflow may name is not among them.

use crate::api::encoded;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use opcell::{
    Host,
    layers::session::skills::{Skill, SkillLibrary},
};
use opcell_types::text::{cleaned, printable};
use rmcp::{
    ErrorData,
    model::{
        DIRECTORY_MIME_TYPE, ReadResourceResult, Resource, ResourceContents, SKILL_MD, Skill as McpSkill,
        SkillFrontmatter, SkillResource, SkillResources,
    },
};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

const MARKDOWN: &str = "text/markdown";

/// Bytes of an address that is repeated.
const URI_BYTES: usize = 2 << 10;

/// Skills per page of a list.
const PAGE: usize = 50;

/// Bytes that are read for a page before it ends.
const PAGE_BYTES: usize = 32 << 20;

/// Bytes of a skill's files that are read for their digests.
const SKILL_BYTES: usize = 16 << 20;

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
        ErrorData::resource_not_found(text, Some(json!({"uri": printable(wanted, URI_BYTES)})))
    };
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

/// One page of the skills that a client sees, with their files; and the URI of the last one, where more follow.
///
/// # Errors
/// When a skill cannot be read.
pub(super) fn page(host: &Host, after: Option<&str>) -> Result<(Vec<McpSkill>, Option<String>), ErrorData> {
    let library = host.skills();
    let mut rest: Vec<(String, &Skill)> = library
        .skills()
        .filter(|skill| skill.is_offered() && skill.file == SKILL_MD)
        .map(|skill| (uri(&skill.name, &skill.file), skill))
        .filter(|(uri, _)| after.is_none_or(|after| **uri > *after))
        .collect();
    rest.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (mut page, mut bytes, mut taken) = (Vec::new(), 0, 0);
    for (uri, skill) in rest.iter().take(PAGE) {
        if bytes > PAGE_BYTES {
            break;
        }
        taken += 1;
        // One whose name the protocol does not have is read as a resource.
        let (entry, read) = entry(library, skill, uri)?;
        bytes += read;
        page.extend(Some(entry).filter(|entry| entry.validate().is_ok()));
    }
    let last = (taken < rest.len()).then(|| rest.get(taken.wrapping_sub(1)).map(|(uri, _)| uri.clone())).flatten();
    Ok((page, last))
}

/// One skill, by the URI of its file.
///
/// # Errors
/// When a client sees no such skill.
pub(super) fn one(host: &Host, wanted: &str) -> Result<McpSkill, ErrorData> {
    let library = host.skills();
    let mut offered = library.skills().filter(|skill| skill.is_offered() && skill.file == SKILL_MD);
    let skill = offered.find(|skill| wanted == uri(&skill.name, &skill.file)).ok_or_else(|| no_skill(wanted))?;
    let (entry, _) = entry(library, skill, wanted)?;
    entry.validate().map_err(|_| no_skill(wanted))?;
    Ok(entry)
}

/// The files and folders directly in a folder of a skill.
///
/// # Errors
/// When a client sees no such folder.
pub(super) fn directory(host: &Host, wanted: &str) -> Result<Vec<Resource>, ErrorData> {
    let library = host.skills();
    let wanted = wanted.strip_suffix('/').unwrap_or(wanted);
    let mut offered = library.skills().filter(|skill| skill.is_offered());
    let of = |skill: &&Skill| {
        let root = uri(&skill.name, "");
        wanted.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let skill = offered.find(of).ok_or_else(|| no_folder(wanted))?;
    let files = library.resources(&skill.name).map_err(|error| failed(&error))?;
    let mut found: BTreeMap<String, Resource> = BTreeMap::new();
    for file in std::iter::once(&skill.file).chain(&files) {
        let whole = uri(&skill.name, file);
        let Some(rest) = whole.strip_prefix(wanted).and_then(|rest| rest.strip_prefix('/')) else { continue };
        // The decoded name of the same depth.
        let depth = file.split('/').count() - rest.split('/').count();
        let name = cleaned(file.split('/').nth(depth).unwrap_or_default());
        let resource = match rest.split_once('/') {
            Some((folder, _)) => Resource::new(format!("{wanted}/{folder}"), name).with_mime_type(DIRECTORY_MIME_TYPE),
            None if file.ends_with(".md") => Resource::new(whole.clone(), name).with_mime_type(MARKDOWN),
            None => Resource::new(whole.clone(), name),
        };
        found.insert(resource.uri.clone(), resource);
    }
    if found.is_empty() { Err(no_folder(wanted)) } else { Ok(found.into_values().collect()) }
}

/// A skill with its front matter and its files, and the bytes that were read for it.
fn entry(library: &SkillLibrary, skill: &Skill, at: &str) -> Result<(McpSkill, usize), ErrorData> {
    let read = |path: &str| library.read_resource(&skill.name, path).map_err(|error| failed(&error));
    let own = read(&skill.file)?;
    let mut bytes = own.len();
    let front = front_matter(skill, &own);
    let mut files = vec![SkillResource::from_bytes(at, &own)];
    for path in library.resources(&skill.name).map_err(|error| failed(&error))? {
        if bytes > SKILL_BYTES {
            return Ok((McpSkill::new(at, front, SkillResources::Dynamic), bytes));
        }
        // One that is larger than what is read of a skill is no file of it here either.
        let Ok(content) = read(&path) else { continue };
        bytes += content.len();
        files.push(SkillResource::from_bytes(uri(&skill.name, &path), &content));
    }
    Ok((McpSkill::new(at, front, SkillResources::Files(files)), bytes))
}

/// The front matter as its author wrote it, with the name and the description by which the skill is known.
fn front_matter(skill: &Skill, file: &[u8]) -> SkillFrontmatter {
    let mut front = SkillFrontmatter::new(skill.name.clone(), skill.description.clone());
    let text = String::from_utf8_lossy(file);
    let head = opcell_yaml::front_matter::split(&text).head.unwrap_or_default();
    let Ok(node) = opcell_yaml::parse(head) else { return front };
    if let Json::Object(fields) = Json::from(&node.to_value()) {
        let own = fields.into_iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "description"));
        front.extra = own.collect();
    }
    front
}

fn no_skill(wanted: &str) -> ErrorData {
    let text = format!("there is no skill `{}`; `skills/list` lists them", crate::api::shown(wanted));
    ErrorData::invalid_params(text, None)
}

fn no_folder(wanted: &str) -> ErrorData {
    let text = format!("there is no folder `{}` of a skill", crate::api::shown(wanted));
    ErrorData::invalid_params(text, None)
}

fn failed(error: &dyn std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn uri(name: &str, path: &str) -> String {
    let path: Vec<String> = path.split('/').map(encoded).collect();
    format!("skill://{}/{}", encoded(name), path.join("/"))
}
