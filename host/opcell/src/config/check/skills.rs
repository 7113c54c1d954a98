//! `[skills.NAME]`: scripts of skills that models may call. Each is a source plugin, with the skill's folder to read and
//! what the table grants.

use super::{Checker, limits::limit_spans, span_of};
use crate::{
    config::{PluginConfig, SkillScript, text::SkillText},
    source,
};
use indexmap::IndexMap;
use opcell_ir::{Span, diagnostic::did_you_mean};
use opcell_sandbox::{FilesGrant, LimitRequest};
use opcell_session::skills::{Skill, SkillFolder, SkillLibrary};
use serde_spanned::Spanned;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The folder of a skill that has its scripts.
const SCRIPTS: &str = "scripts";

/// Scripts of one skill that are offered.
const MAX_SCRIPTS: usize = 100;

/// The root under which a script reads the folder of its skill.
pub(crate) const SKILL_ROOT: &str = "skill";

impl Checker<'_> {
    /// The scripts of the skills that the project names, as plugins.
    pub(super) fn skill_scripts(
        &mut self,
        skills: IndexMap<Spanned<String>, SkillText>,
        folders: &[PathBuf],
        project: &LimitRequest,
    ) -> Vec<PluginConfig> {
        if skills.is_empty() {
            return Vec::new();
        }
        let folders: Vec<SkillFolder> = folders.iter().map(SkillFolder::required).collect();
        let library = SkillLibrary::discover(&folders);
        let mut plugins = Vec::new();
        for (name, text) in skills {
            let span = span_of(&name);
            let Ok(skill) = library.find(name.get_ref()) else {
                let known = library.skills().map(|skill| skill.name.as_str());
                let meant = did_you_mean(name.get_ref(), known).map(|meant| format!("did you mean `{meant}`?"));
                let message = format!("no skill folder has a skill `{}`", name.get_ref());
                self.error("unknown-skill", span, message, meant);
                continue;
            };
            plugins.extend(self.scripts_of(skill, span, text, project));
        }
        plugins
    }

    fn scripts_of(&mut self, skill: &Skill, span: Span, text: SkillText, project: &LimitRequest) -> Vec<PluginConfig> {
        let folder = skill.folder.join(SCRIPTS);
        let named: Vec<(String, Span)> = match text.scripts {
            Some(scripts) => scripts.into_iter().map(|script| (script.get_ref().clone(), span_of(&script))).collect(),
            None => found(&folder).into_iter().map(|script| (script, span)).collect(),
        };
        if named.is_empty() {
            let message =
                format!("the skill `{}` has no script in JavaScript or Python in its folder `{SCRIPTS}`", skill.name);
            self.error("no-script", span, message, Some("remove the table".to_owned()));
        }
        let plugin_name = format!("skill.{}", skill.name);
        let mut grants = self.grants(&plugin_name, text.grants);
        grants.capabilities.files.insert(SKILL_ROOT.to_owned(), FilesGrant::read(&skill.folder));
        self.check_ceiling(&plugin_name, &text.limits, project);
        let spans = limit_spans(&text.limits);
        let limits = self.limits(text.limits);
        let mut plugins = Vec::new();
        for (script, span) in named {
            let Some(stem) = self.script(skill, &folder, &script, span) else { continue };
            plugins.push(PluginConfig {
                span: Some(span),
                project: Some(self.root.to_owned()),
                grants: grants.clone(),
                limits: limits.clone(),
                limit_spans: spans.clone(),
                script: Some(SkillScript { skill: skill.name.clone(), name: stem.clone() }),
                ..PluginConfig::new(format!("{plugin_name}.{stem}"), folder.join(&script))
            });
        }
        plugins
    }

    /// The name of a script without its extension, if it is one that runs in a cell.
    fn script(&mut self, skill: &Skill, folder: &Path, script: &str, span: Span) -> Option<String> {
        let path = Path::new(script);
        let is_plain = path.file_name().is_some_and(|name| name == script);
        if is_plain && source::is_source(path) && folder.join(script).is_file() {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return self.plugin_name(&format!("skill.{}.{stem}", skill.name), span).then_some(stem);
        }
        let (message, help) = match is_plain && folder.join(script).is_file() {
            true => (
                format!(
                    "`{script}` of the skill `{}` is neither JavaScript nor Python: a shell script would run outside of any \
                     cell, with your rights",
                    skill.name
                ),
                "leave it out, or write it in JavaScript (.js) or Python (.py)".to_owned(),
            ),
            false => {
                let known = found(folder);
                let help = did_you_mean(script, known.iter().map(String::as_str));
                let help = match help {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None if known.is_empty() => "it has no script in JavaScript (.js) or Python (.py)".to_owned(),
                    None => format!("its scripts are: {}", known.join(", ")),
                };
                (format!("the skill `{}` has no script `{script}` in its folder `{SCRIPTS}`", skill.name), help)
            }
        };
        self.error("invalid-script", span, message, Some(help));
        None
    }
}

/// The scripts of a folder that run in cells, sorted.
fn found(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names: BTreeSet<String> = names
        .filter(|entry| source::is_source(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.into_iter().take(MAX_SCRIPTS).collect()
}
