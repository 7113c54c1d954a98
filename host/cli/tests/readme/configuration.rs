//! Blocks of configuration and of documents that are not files of their page: each is read by what reads it in earnest.
//!
//! | a block | is read by |
//! | --- | --- |
//! | `toml` | the reader of project files; a plugin that has no `path` is given one |
//! | `toml reads=policy` | the reader of `policy.toml` |
//! | `toml reads=case` | `opcell selftest --project` |
//! | `toml reads=cargo` | a reader of manifests; the features must be those of the library |
//! | `yaml` | the reader of cases of `opcell plugin test` |
//! | `json` | the reader of compiled workflows |
//! | `clojure reads=contributions`, `reads=sources`, `reads=model` | the compiler of psi, in a workflow around it |
//!
//! Everything else that is not run is marked, and the marks are counted in `NOT_RUN`.

use super::{
    page::{Block, blocks, shell},
    pages, root,
};
use std::{fs, path::Path};

/// The blocks of a page that no test of pages runs: `sh` (it needs a server, another machine or a tool chain; what it
/// names is checked against the command line), `text` (what a command printed, a drawing), sources that other tests
/// build.
const NOT_RUN: [(&str, &str, usize); 35] = [
    ("architecture.md", "text", 2),
    // Printed by `opcell code types`.
    ("code-mode.md", "ts", 1),
    ("deploy.md", "ini", 1),
    ("deploy.md", "sh", 2),
    ("distributing.md", "sh", 5),
    ("distributing.md", "text", 2),
    ("embedding.md", "rust,ignore", 16),
    ("events.md", "sh", 1),
    ("first-plugin.md", "sh", 2),
    ("fleet.md", "sh", 2),
    ("gallery.md", "cron", 1),
    ("gallery.md", "sh", 1),
    ("http.md", "sh", 1),
    ("install.md", "sh", 4),
    ("journal.md", "sh", 1),
    ("keep-runs.md", "sh", 1),
    ("mcp-client.md", "sh", 1),
    ("mcp.md", "sh", 2),
    ("models.md", "sh", 1),
    // `cargo xtask bindings --test` runs these.
    ("node.md", "javascript", 1),
    ("node.md", "js", 6),
    ("node.md", "text", 2),
    // As those of `node.md`.
    ("python.md", "python", 7),
    ("python.md", "text", 3),
    ("run-python.md", "python", 2),
    ("run-python.md", "sh", 1),
    ("server.md", "javascript", 1),
    ("server.md", "sh", 3),
    ("source-plugins.md", "python", 1),
    ("stores.md", "rust", 1),
    ("stores.md", "sh", 1),
    ("tools.md", "javascript", 1),
    ("tools.md", "sh", 1),
    ("traces.md", "sh", 1),
    ("triggers.md", "sh", 2),
];

#[test]
fn every_block_of_configuration_is_read_by_what_reads_it() {
    let (mut read, mut problems) = (0, Vec::new());
    for (page, block) in all().iter().filter(|(_, block)| block.file().is_none()) {
        let result = match (block.language(), reads(block)) {
            ("toml", None) => project(&block.text),
            ("toml", Some("policy")) => policy(&block.text),
            ("toml", Some("case")) => case(&block.text),
            ("toml", Some("cargo")) => cargo(&block.text),
            ("yaml", None) => plugin_case(&block.text),
            ("json", None) => compiled(&block.text),
            ("clojure", Some(what)) => forms(what, &block.text),
            ("toml" | "yaml" | "json" | "clojure", of) => {
                Err(format!("`reads={}` means nothing", of.unwrap_or_default()))
            }
            _ => continue,
        };
        read += 1;
        if let Err(problem) = result {
            problems.push(format!("{page}: {problem}\n{}", block.text));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(read >= 15, "only {read} blocks were found");
}

#[test]
fn every_block_that_is_not_run_is_marked_and_counted() {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for (page, block) in all() {
        let is_run =
            block.file().is_some() || ["console", "toml", "yaml", "json", "clojure"].contains(&block.language());
        // Made of what the command line says of itself.
        if is_run || page == "commands.md" {
            continue;
        }
        match found.iter_mut().find(|(of, language, _)| *of == page && language == block.language()) {
            Some((_, _, count)) => *count += 1,
            None => found.push((page, block.language().to_owned(), 1)),
        }
    }
    found.sort();
    let expected: Vec<(String, String, usize)> = NOT_RUN
        .iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(page, language, count)| ((*page).to_owned(), (*language).to_owned(), *count))
        .collect();
    assert_eq!(found, expected, "blocks that no test runs");
}

/// Every block of every page, with the page's name.
fn all() -> Vec<(String, Block)> {
    let of = |page: &Path| {
        let name = page.file_name().unwrap().to_str().unwrap().to_owned();
        blocks(&fs::read_to_string(page).unwrap())
            .into_iter()
            .map(move |block| (name.clone(), block))
            .collect::<Vec<_>>()
    };
    pages().iter().flat_map(|page| of(page)).collect()
}

fn reads(block: &Block) -> Option<&str> {
    block.info.split_whitespace().find_map(|word| word.strip_prefix("reads="))
}

fn project(text: &str) -> Result<(), String> {
    let mut document: toml_edit::DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let folder = tempfile::tempdir().unwrap();
    let tables = |document: &mut toml_edit::DocumentMut, name: &str, visit: &dyn Fn(&mut dyn toml_edit::TableLike)| {
        let of = document.get_mut(name).and_then(|tables| tables.as_table_like_mut());
        of.into_iter().flat_map(|of| of.iter_mut()).for_each(|(_, one)| visit(one.as_table_like_mut().unwrap()));
    };
    // What a block names exists; what it is about is not how it got there.
    let exists = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let skills = document.get("skills").and_then(|skills| skills.as_table_like());
    let skills: Vec<String> =
        skills.into_iter().flat_map(|skills| skills.iter().map(|(name, _)| name.to_owned())).collect();
    if !skills.is_empty() && !document.contains_key("skill-folders") {
        document.insert("skill-folders", toml_edit::value(toml_edit::Array::from_iter(["skills"])));
    }
    for name in skills {
        exists(&format!("skills/{name}/scripts/count.js"));
        let script = "/** Counts.\n * @returns {number} */\nexport function count() {\n  return 1;\n}\n";
        fs::write(folder.path().join(format!("skills/{name}/scripts/count.js")), script).unwrap();
        let about = format!("---\nname: {name}\ndescription: Works.\n---\n");
        fs::write(folder.path().join(format!("skills/{name}/SKILL.md")), about).unwrap();
    }
    tables(&mut document, "plugins", &|plugin| {
        let source = plugin.get("source").and_then(|source| source.as_str()).unwrap_or_default();
        if source.starts_with("builtin:") {
            return;
        }
        if !plugin.contains_key("path") {
            plugin.insert("path", toml_edit::value("plugin.wasm"));
        }
        exists(plugin.get("path").and_then(|path| path.as_str()).unwrap());
    });
    tables(&mut document, "tenants", &|tenant| exists(tenant.get("project").and_then(|file| file.as_str()).unwrap()));
    let parsed = opcell::Config::parse("opcell.toml", document.to_string(), folder.path());
    parsed.map(drop).map_err(|rejected| rejected.render(false))
}

/// The user's policy file, read by a command that obeys it.
fn policy(text: &str) -> Result<(), String> {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(home.path().join(".config/opcell")).unwrap();
    fs::write(home.path().join(".config/opcell/policy.toml"), text).unwrap();
    fs::write(project.path().join("opcell.toml"), "[sessions.bash]\ndangerous = true\n").unwrap();
    let mut command = shell("opcell trust --show", project.path(), home.path());
    let output = command.env_remove("XDG_CONFIG_HOME").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // The shell that this policy forbids is asked for.
    if said.contains("forbid") { Ok(()) } else { Err(said.into_owned()) }
}

fn case(text: &str) -> Result<(), String> {
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let case = folder.path().join("cases/shell");
    fs::create_dir_all(&case).unwrap();
    fs::write(case.join("case.toml"), text).unwrap();
    fs::write(case.join("opcell.toml"), "[sessions.bash]\ndangerous = true\n").unwrap();
    let workflow = r#"{:name "w" :description "d" :steps [{:name "s" :type :exit :status :success}]}"#;
    fs::write(case.join("w.edn"), workflow).unwrap();
    let output = shell("opcell selftest --project cases", folder.path(), home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() && said.contains("1 contained") { Ok(()) } else { Err(said.into_owned()) }
}

fn cargo(text: &str) -> Result<(), String> {
    let manifest: toml_edit::DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let own: toml_edit::DocumentMut =
        fs::read_to_string(root().join("host/opcell/Cargo.toml")).unwrap().parse().unwrap();
    let features = manifest["dependencies"]["opcell"]["features"].as_array().ok_or("no features")?;
    let unknown =
        features.iter().filter_map(|feature| feature.as_str()).find(|name| own["features"].get(name).is_none());
    unknown.map_or(Ok(()), |name| Err(format!("the library has no feature `{name}`")))
}

fn plugin_case(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("case.yaml"), text).unwrap();
    opcell_cli::cases::read(folder.path()).map(drop).map_err(|error| error.to_string())
}

fn compiled(text: &str) -> Result<(), String> {
    let read: Result<opcell_ir::WorkflowIr, _> = serde_json::from_str(text);
    read.map(drop).map_err(|error| error.to_string())
}

/// Forms of psi in the place where a document has them. What they refer to is not there; every other finding counts.
fn forms(what: &str, text: &str) -> Result<(), String> {
    let session =
        |inside: String| format!("{{:name \"w\" :description \"d\" :steps [{{:name \"s\" :type :session {inside}}}]}}");
    let template = ":contributions [{:type :template :text \"Hi\"}]";
    let documents = match what {
        "contributions" => vec![session(format!(":contributions [{text}]"))],
        "model" => vec![session(format!("{template} :model {text}"))],
        // A line each.
        "sources" => text
            .lines()
            .map(|line| {
                format!(
                    "{{:name \"w\" :description \"d\" :steps [{{:name \"s\" :type :invoke :operation \"a/b\" :args {{:x {line}\n}}}}]}}"
                )
            })
            .collect(),
        other => return Err(format!("`reads={other}` means nothing")),
    };
    for document in documents {
        let found = opcell::document::compile(Path::new("w.edn"), document.clone()).diagnostics;
        let refers = |message: &str| message.contains("step");
        if let Some(problem) = found.iter().find(|problem| !refers(&problem.message)) {
            return Err(format!("{}: {} in {document}", problem.code, problem.message));
        }
    }
    Ok(())
}
