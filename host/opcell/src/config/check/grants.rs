//! Reading `[plugins.NAME.grants]`.

use super::{Checker, HOST_TOOLS, access, span_of};
use crate::config::{
    PluginGrants,
    text::{FileText, GrantsText, PerText, PreopenText, StoreText},
};
use opcell_ir::diagnostic::did_you_mean;
use opcell_sandbox::{
    grants::{DangerousPreopen, FilesGrant, Grants, StoreGrant},
    limits::Unit,
};
use opcell_types::OperationId;
use serde_spanned::Spanned;

impl Checker<'_> {
    pub(super) fn grants(&mut self, plugin: &str, text: GrantsText) -> PluginGrants {
        for tool in &text.tools {
            let known = || HOST_TOOLS.into_iter().chain(self.tool_names.iter().map(String::as_str));
            // Which operations there are is known when the plugins are loaded.
            let is_operation = tool.get_ref().parse::<OperationId>().is_ok();
            if !is_operation && !known().any(|name| name == tool.get_ref()) {
                let meant = did_you_mean(tool.get_ref(), known()).map(|meant| format!("did you mean `{meant}`?"));
                let help = meant.unwrap_or_else(|| {
                    let listed = known().collect::<Vec<_>>().join(", ");
                    format!("expected a tool of the host or of `[tools]` ({listed}), or the ID of an operation")
                });
                self.error(
                    "unknown-capability",
                    span_of(tool),
                    format!("the project has no tool `{}`", tool.get_ref()),
                    Some(help),
                );
            }
        }
        let tools: Vec<String> = text.tools.into_iter().map(Spanned::into_inner).collect();
        if let Some(rule) = text.http.first().filter(|_| !tools.iter().any(|tool| tool == "http.fetch")) {
            let message = format!("plugin `{plugin}` has http rules but is not granted the tool that uses them");
            let help = "add `tools = [\"http.fetch\"]` to its grants".to_owned();
            self.error("unknown-capability", span_of(rule), message, Some(help));
        }
        let mut grants = Grants {
            tools: tools.into_iter().collect(),
            skills: text.skills.into_iter().map(Spanned::into_inner).collect(),
            ..Grants::default()
        };
        for (name, file) in text.files {
            if let Some(file) = self.file(file) {
                grants.files.insert(name.into_inner(), file);
            }
        }
        for (name, store) in text.stores {
            grants.stores.extend(self.store(store).map(|store| (name.into_inner(), store)));
        }
        for (guest, preopen) in text.preopens {
            grants.dangerous_preopens.extend(self.preopen(guest.into_inner(), preopen));
        }
        let http = text.http.into_iter().filter_map(|rule| self.http(rule.into_inner())).collect();
        PluginGrants { capabilities: grants, http, prompt: text.prompt, ..PluginGrants::default() }
    }

    fn file(&mut self, text: FileText) -> Option<FilesGrant> {
        let path = self.directory(&text.path, "granted directory");
        let quota = self.quota(text.quota.as_ref());
        let patterns = text.globs.into_iter().map(Spanned::into_inner).collect();
        Some(FilesGrant {
            access: access(text.access),
            patterns,
            write_quota: quota?,
            control_files: text.control_files,
            ..FilesGrant::read(path?)
        })
    }

    fn store(&mut self, text: StoreText) -> Option<StoreGrant> {
        let quota = self.quantity(text.quota.as_ref(), Unit::Bytes, "quota", StoreGrant::DEFAULT_QUOTA);
        let entries = self.quantity(text.entries.as_ref(), Unit::Count, "entries", StoreGrant::DEFAULT_ENTRIES);
        Some(StoreGrant { quota: quota?, entries: entries?, per_run: text.per == PerText::Run })
    }

    fn preopen(&mut self, guest: String, preopen: Spanned<PreopenText>) -> Option<DangerousPreopen> {
        let span = span_of(&preopen);
        let text = preopen.into_inner();
        let host = self.directory(&text.path, "preopened directory")?;
        if !text.dangerous {
            let message = "a preopen has no quota, no globs and no receipt; it needs `dangerous = true`".to_owned();
            self.error(
                "dangerous-preopen",
                span,
                message,
                Some("grant `files` instead where the plugin can use them".to_owned()),
            );
            return None;
        }
        Some(DangerousPreopen { host, guest, access: access(text.access), control_files: text.control_files })
    }
}
