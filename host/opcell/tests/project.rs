//! The documented project file is a project file.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell::{
    Config,
    config::tools::{McpServer, ToolTarget},
};
use std::{fs, path::Path};

#[test]
fn the_example_documents_keys_that_exist_with_values_that_mean_something() {
    let example = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../opcell.example.toml")).unwrap();
    let project = tempfile::tempdir().unwrap();
    for folder in ["workflows", "plugins", "skills", "data", "acme"] {
        fs::create_dir(project.path().join(folder)).unwrap();
    }
    fs::create_dir_all(project.path().join("skills/triage/scripts")).unwrap();
    let skill = "---\nname: triage\ndescription: Sorts issues.\n---\n";
    fs::write(project.path().join("skills/triage/SKILL.md"), skill).unwrap();
    let script = "/** Counts.\n * @returns {number} */\nexport function count() {\n  return 1;\n}\n";
    fs::write(project.path().join("skills/triage/scripts/count.js"), script).unwrap();
    fs::write(project.path().join("script.yaml"), "").unwrap();
    fs::write(project.path().join("acme/opcell.toml"), "").unwrap();
    for plugin in ["github", "repo", "legacy"] {
        fs::write(project.path().join(format!("plugins/{plugin}.wasm")), "").unwrap();
    }

    let config =
        Config::parse("opcell.example.toml", example, project.path()).unwrap_or_else(|findings| panic!("{findings}"));

    assert_eq!(config.keep_resident, Some(16 << 20));
    let plugins: Vec<&String> = config.plugins.keys().collect();
    assert_eq!(plugins, ["github", "triage", "repo", "legacy", "skill.triage.count"]);
    let github = &config.plugins["github"].grants;
    assert_eq!(github.http[0].methods.len(), 4);
    assert_eq!(github.http[0].credential.as_ref().unwrap().prefix, "Bearer ");
    assert_eq!(config.plugins["repo"].grants.capabilities.files["repo"].write_quota, 16 << 20);
    assert_eq!(config.plugins["repo"].limits.wall_time, Some(10_000));
    let ToolTarget::Host { http, .. } = &config.tools["web_fetch"] else { panic!("{:?}", config.tools) };
    assert_eq!(http.len(), 1);
    assert_eq!(config.tools["create_note"], ToolTarget::Mcp { server: "notes".to_owned(), tool: "create".to_owned() });
    let server = &config.servers["notes"];
    assert_eq!(
        (server.call_time, server.result_bytes),
        (McpServer::DEFAULT_CALL_TIME, McpServer::DEFAULT_RESULT_BYTES)
    );
    assert_eq!(config.sessions.profiles["careful"].temperature, Some(0.2));
    assert_eq!(config.plugins["legacy"].grants.capabilities.dangerous_preopens[0].guest, "/data");
}

#[test]
fn what_cells_of_interpreters_leave_in_place_is_adjusted_within_bounds() {
    let parsed = |text: &str| Config::parse("opcell.toml", text.to_owned(), Path::new("/"));
    assert_eq!(parsed("").unwrap().keep_resident, None);
    assert_eq!(parsed("keep-resident = \"1 MiB\"").unwrap().keep_resident, Some(1 << 20));
    assert_eq!(parsed("keep-resident = 0").unwrap().keep_resident, Some(0));
    let refused = parsed("keep-resident = \"65 MiB\"").unwrap_err().to_string();
    assert!(refused.contains("`keep-resident` is 65 MiB, more than 64 MiB"), "{refused}");
    assert!(parsed("keep-resident = \"much\"").is_err());
}

#[test]
fn the_example_shows_every_limit() {
    let example = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../opcell.example.toml")).unwrap();
    for limit in opcell_sandbox::limits::TABLE {
        assert!(example.lines().any(|line| line.starts_with(limit.key)), "{} is not documented", limit.key);
    }
}
