//! Grants taken away for one command.

use super::{Config, PluginGrants};
use opcell_ir::diagnostic::did_you_mean;

impl Config {
    /// Takes `PLUGIN:KIND[:NAME]` away, where kind is `tool`, `skill`, `files`, `store`, `http`, `preopen` or `prompt`;
    /// without a name, all of the kind.
    ///
    /// # Errors
    /// When there is no such plugin, kind or grant: a command that means to take something away must not miss it.
    pub fn withdraw(&mut self, grant: &str) -> Result<(), String> {
        let mut parts = grant.splitn(3, ':');
        let (Some(plugin), Some(kind), name) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!(
                "`{grant}` is not a grant: expected `PLUGIN:KIND` or `PLUGIN:KIND:NAME`, such as `repo:files`"
            ));
        };
        let names: Vec<String> = self.plugins.keys().cloned().collect();
        let Some(found) = self.plugins.get_mut(plugin) else {
            let meant = did_you_mean(plugin, names.iter().map(String::as_str));
            return Err(format!(
                "there is no plugin `{plugin}`{}",
                meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default()
            ));
        };
        let PluginGrants { capabilities, http, prompt, approved: _, conflict: _ } = &mut found.grants;
        let all = name.is_none();
        let keep = |existing: &str| !all && Some(existing) != name;
        let before = (capabilities.clone(), http.len(), *prompt);
        match kind {
            "tool" => capabilities.tools.retain(|tool| keep(tool)),
            "skill" => capabilities.skills.retain(|skill| keep(skill)),
            "files" => capabilities.files.retain(|root, _| keep(root)),
            "store" => capabilities.stores.retain(|store, _| keep(store)),
            "preopen" => capabilities.dangerous_preopens.retain(|preopen| keep(&preopen.guest)),
            "http" => http.retain(|rule| rule.origins.iter().all(|origin| keep(&origin.to_string()))),
            "prompt" => *prompt = false,
            _ => {
                return Err(format!(
                    "`{kind}` is not a kind of grant: expected tool, skill, files, store, http, preopen or prompt"
                ));
            }
        }
        if before == (capabilities.clone(), http.len(), *prompt) {
            Err(format!("plugin `{plugin}` has no such grant: `{grant}`"))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Config;
    use crate::config::{PluginConfig, PluginGrants};
    use opcell_sandbox::grants::{FilesGrant, Grants, StoreGrant};

    fn config() -> Config {
        let mut config = Config::empty("/");
        let files = [("a".to_owned(), FilesGrant::read("/a")), ("b".to_owned(), FilesGrant::read("/b"))].into();
        let capabilities = Grants { files, tools: ["http.fetch".to_owned()].into(), ..Grants::default() };
        let plugin = PluginConfig {
            grants: PluginGrants { capabilities, ..PluginGrants::default() },
            ..PluginConfig::new("repo", "/repo.wasm")
        };
        config.plugins.insert("repo".to_owned(), plugin);
        config
    }

    #[test]
    fn a_kind_or_a_single_grant_is_taken_away() {
        let mut one = config();
        one.withdraw("repo:files:a").unwrap();
        assert_eq!(one.plugins["repo"].grants.capabilities.files.keys().collect::<Vec<_>>(), ["b"]);
        let mut all = config();
        all.withdraw("repo:files").unwrap();
        assert!(all.plugins["repo"].grants.capabilities.files.is_empty());
        assert!(!all.plugins["repo"].grants.capabilities.tools.is_empty());
    }

    #[test]
    fn a_store_is_taken_away_by_its_name() {
        let mut config = config();
        let stores = &mut config.plugins["repo"].grants.capabilities.stores;
        stores.insert("counts".to_owned(), StoreGrant::default());
        config.withdraw("repo:store:counts").unwrap();
        assert!(config.plugins["repo"].grants.capabilities.stores.is_empty());
        assert!(config.withdraw("repo:store:counts").is_err());
    }

    #[test]
    fn taking_away_what_is_not_there_is_an_error() {
        for grant in ["repo", "rep:files", "repo:file", "repo:files:c", "repo:http"] {
            assert!(config().withdraw(grant).is_err(), "{grant}");
        }
        assert!(config().withdraw("rpeo:files").unwrap_err().contains("did you mean `repo`?"));
    }
}
