//! Reading `[plugins.NAME]` and the plugin folders.

use super::{Checker, is_plugin_name, limits::limit_spans, span_of};
use crate::{
    builtin,
    config::{
        PluginConfig,
        origin::Origin,
        text::{ExportsText, PluginText, SettingText},
    },
    places::real,
};
use indexmap::IndexMap;
use opcell_ir::{Span, diagnostic::did_you_mean};
use opcell_sandbox::{
    Exports, Settings,
    limits::{LimitRequest, Unit},
};
use opcell_types::Effects;
use serde_spanned::Spanned;
use std::{collections::BTreeMap, path::PathBuf};

/// Bytes of a plugin's settings, keys and values together.
const MAX_SETTINGS: u64 = 256 << 10;

impl Checker<'_> {
    /// A plugin's name is in commands that people copy, in receipts and on terminals.
    pub(super) fn plugin_name(&mut self, name: &str, span: Span) -> bool {
        if is_plugin_name(name) {
            return true;
        }
        let message = format!("`{}` is not a name of a plugin", crate::report::printable(name));
        let help =
            "a name begins with a letter or digit, and has up to 64 letters, digits, `.`, `_` and `-`; rename the file";
        self.error("invalid-plugin-name", span, message, Some(help.to_owned()));
        false
    }

    /// Every `.wasm` file of the folders by its name without the extension.
    pub(super) fn folder_plugins(&mut self, folders: &[Spanned<String>]) -> BTreeMap<String, PathBuf> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for folder in folders {
            let Some(path) = self.directory(folder, "plugin folder") else { continue };
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    let files = entries.flatten().map(|entry| entry.path());
                    let mut named: Vec<(String, PathBuf)> = files
                        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
                        .filter_map(|path| Some((path.file_stem()?.to_string_lossy().into_owned(), path)))
                        .collect();
                    named.sort();
                    named.retain(|(name, _)| self.plugin_name(name, span_of(folder)));
                    for (name, path) in named {
                        match found.get(&name) {
                            Some(other) if real(other) != real(&path) => {
                                let message = format!("two plugin folders have a plugin `{name}`");
                                let help = format!("rename or remove {} or {}", other.display(), path.display());
                                self.error("duplicate-plugin", span_of(folder), message, Some(help));
                            }
                            Some(_) => {}
                            None => drop(found.insert(name, path)),
                        }
                    }
                }
                Err(error) => {
                    let message = format!("cannot read the plugin folder `{}`: {error}", folder.get_ref());
                    self.error("path-not-found", span_of(folder), message, None);
                }
            }
        }
        found
    }

    pub(super) fn plugin(
        &mut self,
        name: &Spanned<String>,
        text: PluginText,
        project: &LimitRequest,
        (folder_plugins, names): (&BTreeMap<String, PathBuf>, &[String]),
    ) -> Option<PluginConfig> {
        self.plugin_name(name.get_ref(), span_of(name));
        let grants = self.grants(name.get_ref(), text.grants);
        let ceiling = self.limits(text.ceiling);
        self.check_ceiling(name.get_ref(), &text.limits, &ceiling.or(project));
        let declared = PluginConfig {
            grants,
            limit_spans: limit_spans(&text.limits),
            limits: self.limits(text.limits),
            ceiling,
            exports: self.exports(text.exports, text.effects),
            settings: self.settings(text.config),
            record_host_calls: text.record_host_calls,
            on_denied: text.on_denied,
            ..PluginConfig::new(name.get_ref(), "")
        };
        if let Some(source) = &text.source {
            let span = Some(span_of(source));
            let others = [("path", text.path.is_some()), ("dev", text.dev)];
            if let Some(builtin) = source.get_ref().strip_prefix(builtin::SCHEME) {
                let found = self.builtin(name.get_ref(), builtin, span_of(source), others, text.unsigned)?;
                return Some(PluginConfig { path: found.path, span, component: found.component, ..declared });
            }
            let origin = self.origin(name.get_ref(), source, others, text.unsigned)?;
            return Some(PluginConfig { path: source.get_ref().into(), span, origin: Some(origin), ..declared });
        }
        if text.unsigned {
            let help = "remove it, or give the plugin a `source`".to_owned();
            let message = "`unsigned` is about plugins of a registry, and this one lies at a path".to_owned();
            self.error("invalid-source", span_of(name), message, Some(help));
        }
        let (path, span) = match (&text.path, folder_plugins.get(name.get_ref())) {
            (Some(path), _) => (self.root.join(path.get_ref()), span_of(path)),
            (None, Some(path)) => (path.clone(), span_of(name)),
            (None, None) => {
                let meant = did_you_mean(name.get_ref(), names.iter().map(String::as_str));
                let help = meant.map_or_else(
                    || "give it a `path`, or put its .wasm file into a plugin folder".to_owned(),
                    |meant| format!("did you mean `{meant}`?"),
                );
                let message = format!(
                    "there is no plugin `{}`: it has no `path`, and no plugin folder has `{0}.wasm`",
                    name.get_ref()
                );
                self.error("unknown-plugin", span_of(name), message, Some(help));
                return None;
            }
        };
        let project = Some(self.root.to_owned());
        Some(PluginConfig { path, project, span: Some(span), dev: text.dev, ..declared })
    }

    fn settings(&mut self, config: IndexMap<Spanned<String>, Spanned<SettingText>>) -> Settings {
        let mut settings = Settings::new();
        let mut bytes = 0_u64;
        for (key, value) in config {
            let span = span_of(&value);
            let SettingText::Text(text) = value.into_inner() else {
                let help = Some("write it in quotes".to_owned());
                self.error("project-file-invalid", span, format!("setting `{}` must be a string", key.get_ref()), help);
                continue;
            };
            bytes += (key.get_ref().len() + text.len()) as u64;
            if bytes > MAX_SETTINGS {
                let message = format!("the settings of a plugin have at most {}", Unit::Bytes.show(MAX_SETTINGS));
                self.error(
                    "settings-too-large",
                    span,
                    message,
                    Some("put what is large into a file and grant it".to_owned()),
                );
                break;
            }
            settings.insert(key.into_inner(), text);
        }
        settings
    }

    fn exports(&mut self, exports: ExportsText, effects: IndexMap<Spanned<String>, Effects>) -> Exports {
        match (exports, effects.keys().next()) {
            (ExportsText::Contract, None) => Exports::Contract,
            (ExportsText::Contract, Some(id)) => {
                let message = "a plugin says itself what repeating its operations does".to_owned();
                let help = "`effects` is for `exports = \"typed\"`; remove it".to_owned();
                self.error("effects-of-contract", span_of(id), message, Some(help));
                Exports::Contract
            }
            (ExportsText::Typed, _) => {
                Exports::Typed(effects.into_iter().map(|(id, effects)| (id.into_inner(), effects)).collect())
            }
        }
    }

    /// A plugin that is part of the library.
    fn builtin(
        &mut self,
        plugin: &str,
        builtin: &str,
        span: Span,
        others: [(&str, bool); 2],
        unsigned: bool,
    ) -> Option<PluginConfig> {
        if let Some((key, _)) = others.into_iter().chain([("unsigned", unsigned)]).find(|(_, there)| *there) {
            let message = format!("plugin `{plugin}` is part of Opcell, and `{key}` is about plugins that are not");
            self.error("invalid-source", span, message, Some(format!("remove `{key}`")));
            return None;
        }
        let Some(found) = PluginConfig::builtin(builtin) else {
            let known = builtin::names().map(|name| format!("`builtin:{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("no plugin `{builtin}` is part of Opcell");
            self.error("invalid-source", span, message, Some(format!("expected {known}")));
            return None;
        };
        Some(found)
    }

    fn origin(
        &mut self,
        plugin: &str,
        source: &Spanned<String>,
        others: [(&str, bool); 2],
        unsigned: bool,
    ) -> Option<Origin> {
        let span = span_of(source);
        if let Some((key, _)) = others.into_iter().find(|(_, there)| *there) {
            let message = format!("plugin `{plugin}` has both `source` and `{key}`");
            let help = "a plugin comes from a registry (`source`) or lies at a `path`".to_owned();
            self.error("invalid-source", span, message, Some(help));
            return None;
        }
        match source.get_ref().parse() {
            Ok(reference) => Some(Origin::new(reference, unsigned)),
            Err(error) => {
                let error: opcell_registry::reference::ReferenceError = error;
                let help = (!opcell_registry::Reference::is_meant_by(source.get_ref()))
                    .then(|| "a file is named with `path`".to_owned());
                self.error("invalid-source", span, error.to_string(), help);
                None
            }
        }
    }
}
