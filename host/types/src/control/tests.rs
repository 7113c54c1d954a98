//! Names that are refused, and names that are not.

use super::*;

fn reads(path: &str) -> bool {
    ControlFiles::default().refuses(Touch::Read, Path::new(path)).is_none()
}

fn writes(path: &str) -> bool {
    ControlFiles::default().refuses(Touch::Write, Path::new(path)).is_none()
}

#[test]
fn ordinary_files_are_read_and_written() {
    for path in
        ["src/main.rs", "README.md", "docs/agents.txt", ".gitignore", "environment", "env", "keys.rs", "git/config"]
    {
        assert!(reads(path) && writes(path), "{path}");
    }
}

#[test]
fn what_decides_is_read_but_not_written_at_any_depth() {
    for path in [
        "opcell.toml",
        "a/b/opcell.lock",
        ".git/HEAD",
        ".git/refs/heads/main",
        ".git",
        ".hg/hgrc",
        ".github/workflows/ci.yml",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        ".mcp.json",
        ".gemini/settings.json",
        ".windsurf/rules/x.md",
        "sub/.clinerules",
        "AGENTS.md",
        "x/CLAUDE.md",
        ".opcell/workflows/w.edn",
        ".claude/settings.json",
        ".opcell",
    ] {
        assert!(reads(path), "{path}");
        assert!(!writes(path), "{path}");
    }
}

#[test]
fn secrets_and_journals_are_neither_read_nor_written() {
    for path in [
        ".env",
        "a/.env",
        ".env.local",
        ".env.production",
        ".env~",
        ".git/config",
        ".cargo/credentials",
        ".config/gh/hosts.yml",
        ".config/gcloud/x",
        ".azure/x",
        ".vault-token",
        "credentials.json",
        ".ssh/config",
        "home/.aws/credentials",
        "tls/server.key",
        "server.pem",
        "id_ed25519",
        ".opcell/runs.db",
        ".opcell/runs.db-wal",
        "old/runs.db",
        ".docker/config.json",
        ".opcell/cache/x",
    ] {
        assert!(!reads(path) && !writes(path), "{path}");
    }
    for path in [".env.example", ".env.sample", "id_ed25519.pub", "monkey"] {
        assert!(reads(path), "{path}");
    }
}

#[test]
fn no_spelling_of_a_name_gets_around_the_list() {
    for path in [
        "OPCELL.TOML",
        "Opcell.Toml",
        "opcell.toml.",
        "opcell.toml ",
        "opcell.toml::$DATA",
        "ｏpcell.toml",
        "opcell．toml",
        "op\u{200c}cell.toml",
        "opcell.to\u{feff}ml",
        ".GIT/hooks/x",
        ".g\u{200c}it/hooks/x",
        ".Git./hooks/x",
        "GIT~1/hooks/x",
        "opcell.loc\u{212a}",
        "Agent\u{17f}.md",
        "AGENTS.MD",
    ] {
        assert!(!writes(path), "{path:?}");
    }
    for path in [".ENV", ".e\u{200d}nv", "\u{ff0e}env", ".Env.Local", ".\u{1d5ba}ws/credentials"] {
        assert!(!reads(path), "{path:?}");
    }
}

#[test]
fn composed_and_decomposed_names_of_places_in_force_are_the_same_place() {
    let control = ControlFiles { fixed: vec!["/p/caf\u{e9}.wasm".into()], ..ControlFiles::default() };
    assert!(control.refuses(Touch::Write, Path::new("/p/cafe\u{301}.wasm")).is_some());
    assert!(control.refuses(Touch::Write, Path::new("/p/CAF\u{c9}.WASM")).is_some());
    assert!(control.refuses(Touch::Write, Path::new("/p/cafe.wasm")).is_none());
    assert!(control.refuses(Touch::Read, Path::new("/p/caf\u{e9}.wasm")).is_none());
}

#[test]
fn folders_above_the_project_do_not_count_but_a_root_inside_one_does() {
    let control = ControlFiles { project: Some("/home/u/.claude/tree".into()), ..ControlFiles::default() };
    assert!(control.refuses(Touch::Write, Path::new("/home/u/.claude/tree/src/a.rs")).is_none());
    assert!(control.refuses(Touch::Write, Path::new("/home/u/.claude/tree/.git/x")).is_some());
    assert!(control.refuses(Touch::Write, Path::new("/home/u/other/.git/x")).is_some());
}

#[test]
fn a_root_that_holds_or_lies_in_the_users_state_is_refused() {
    let control = ControlFiles { sealed: vec!["/home/u/.local/state/opcell".into()], ..ControlFiles::default() };
    for root in ["/", "/home/u", "/home/u/.local/state/opcell", "/home/u/.local/state/opcell/keys"] {
        assert!(control.sealed_by(Path::new(root)).is_some(), "{root}");
    }
    assert!(control.sealed_by(Path::new("/home/u/project")).is_none());
    assert!(control.refuses(Touch::Read, Path::new("/home/u/.local/state/opcell/trusted")).is_some());
}

#[test]
fn what_pipelines_editors_shells_and_agents_obey_is_not_written() {
    for path in [
        ".gitlab-ci.yml",
        ".gitlab-ci.yaml",
        "ci/build.gitlab-ci.yml",
        ".circleci/config.yml",
        ".travis.yml",
        "Jenkinsfile",
        "jenkins/Jenkinsfile.release",
        "azure-pipelines.yml",
        "azure-pipelines-release.yml",
        "bitbucket-pipelines.yml",
        ".gitea/workflows/ci.yml",
        ".forgejo/workflows/ci.yml",
        ".woodpecker.yml",
        ".woodpecker/build.yaml",
        ".drone.yml",
        ".drone.jsonnet",
        ".buildkite/pipeline.yml",
        "appveyor.yml",
        ".cirrus.yml",
        ".tekton/push.yaml",
        "cloudbuild.yaml",
        "buildspec.yml",
        "renovate.json5",
        ".idea/workspace.xml",
        "project.iml",
        ".dir-locals.el",
        ".exrc",
        ".nvim.lua",
        ".nvimrc",
        ".vimrc",
        "x.code-workspace",
        "x.sublime-project",
        ".devcontainer.json",
        ".helix/languages.toml",
        ".envrc",
        ".bashrc",
        ".zshenv",
        ".profile",
        ".cargo/config.toml",
        ".mvn/extensions.xml",
        "sitecustomize.py",
        "authorized_keys",
        "QWEN.md",
        "opencode.json",
        "opencode.jsonc",
        ".opencode/agent/x.md",
        ".trae/rules/x.md",
        ".augment/rules/x.md",
        ".augment-guidelines",
        "CONVENTIONS.md",
        "WARP.md",
        "AGENT.md",
        "skills/x/SKILL.md",
        ".aider.conf.yml",
        ".aider.model.settings.yml",
        ".roomodes",
        ".kilocode/rules/x.md",
        ".factory/droids/x.md",
        "x.instructions.md",
        "mcp.json",
        ".githooks/pre-push",
        ".pre-commit-config.yml",
        "lefthook.toml",
        "lefthook-local.yml",
        "opcell-vendor/x/component.wasm",
    ] {
        assert!(!writes(path), "{path}");
    }
    for path in [
        "Makefile",
        "package.json",
        "ci.md",
        "src/agents.rs",
        "docs/skills.md",
        "Dockerfile",
        ".gitignore",
        "build.yml",
    ] {
        assert!(writes(path), "{path}");
    }
}

#[test]
fn files_of_environments_keys_tokens_and_histories_are_neither_read_nor_written() {
    for path in [
        "prod.env",
        ".env-local",
        ".env.production.local",
        ".env_backup",
        ".env.vault",
        ".env/prod",
        ".flaskenv",
        ".dev.vars",
        ".dev.vars.staging",
        "secrets.json",
        "secret.yaml",
        "app-secrets.yml",
        "client_secret_12.apps.json",
        ".secrets",
        ".secrets.toml",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "infra/terraform.tfstate.1699.backup",
        "prod.tfvars",
        "prod.auto.tfvars.json",
        "auth.json",
        "kubeconfig",
        "kubeconfig-prod.yaml",
        "prod.kubeconfig",
        ".yarnrc.yml",
        ".npmrc",
        "id_ed25519_sk",
        "id_work",
        "id_rsa.old",
        "deploy_rsa",
        "ssh_host_ed25519_key",
        "x.ppk",
        "vault.kdbx",
        ".dockercfg",
        ".dockerconfigjson",
        ".s3cfg",
        ".bash_history",
        ".psql_history",
        ".zsh_history",
        ".python_history",
        ".node_repl_history",
        ".history/x",
        "fish_history",
        "token.txt",
        "token",
        "github_token",
        "access-token.json",
        "api_key.txt",
        "passwords.csv",
        ".vault_pass",
        ".git/modules/sub/config",
        ".git/worktrees/w/config.worktree",
        ".git/config.worktree",
        ".git/FETCH_HEAD",
        ".git/logs/HEAD",
        ".git/credentials",
        ".git/hooks/post-checkout",
        "GIT~1/config",
        ".idea/dataSources.local.xml",
        ".m2/settings.xml",
        "service-account-prod.json",
        "credentials.csv",
        "#.env#",
        ".env.swp",
        "..env.swp",
        "prod.env.bak",
        "prod.env~",
        "id_rsa.bak",
    ] {
        assert!(!reads(path) && !writes(path), "{path}");
    }
    for path in [
        "src/token.rs",
        "src/tokens.ts",
        "lib/credentials.py",
        "password.go",
        "docs/secrets.md",
        "id_map.rs",
        "private_key.rs",
        "example.env",
        "terraform.tfvars.example",
        ".env.local.template",
        "history.txt",
        "CHANGELOG.md",
        "keys/mod.rs",
        ".git/objects/ab/cdef",
        ".git/packed-refs",
        "tokenizer.json",
    ] {
        assert!(reads(path), "{path}");
    }
}

#[test]
fn no_repository_is_made_or_changed() {
    for path in ["docs/HEAD", "docs/head", "x.git/config", "x.git/hooks/post-update", "docs/commondir"] {
        assert!(!writes(path), "{path}");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("bare/objects")).unwrap();
    std::fs::create_dir_all(root.join("docs")).unwrap();
    std::fs::write(root.join("bare/HEAD"), "ref: refs/heads/main").unwrap();
    assert!(is_in_repository(&root.join("bare/config"), root).is_some());
    assert!(is_in_repository(&root.join("bare/hooks/post-update"), root).is_some());
    assert!(is_in_repository(&root.join("docs/config"), root).is_none());
    assert!(is_in_repository(&root.join("bare"), root).is_none());
    // Folders above the root are none of its grant's.
    assert!(is_in_repository(&root.join("bare/docs/config"), &root.join("bare/docs")).is_none());
}

#[test]
fn a_folder_that_is_read_for_documents_takes_no_new_ones() {
    let listed = Listed::new("/p/flows".into(), &["edn", "md"]);
    let control = ControlFiles { listed: vec![listed], ..ControlFiles::default() };
    for path in ["/p/flows/new.edn", "/p/flows/NEW.EDN", "/p/FLOWS/new.md", "/p/flows/new.edn."] {
        assert!(control.refuses(Touch::Write, Path::new(path)).is_some(), "{path}");
        assert!(control.refuses(Touch::Read, Path::new(path)).is_none(), "{path}");
    }
    for path in ["/p/flows/data.csv", "/p/flows/sub/new.edn", "/p/new.edn", "/p/flows"] {
        assert!(control.refuses(Touch::Write, Path::new(path)).is_none(), "{path}");
    }
    assert!(control.decides_below(Path::new("/p")));
}

#[test]
fn a_file_with_several_names_is_refused_where_one_of_them_is_a_secret() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("work");
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    let control = ControlFiles { project: Some(folder.path().to_owned()), ..ControlFiles::default() };
    for (number, secret) in ["work/.env", "work/sub/deep/id_rsa", "config/prod.env"].into_iter().enumerate() {
        std::fs::write(folder.path().join(secret), "").unwrap();
        let twin = root.join(format!("n{number}.txt"));
        std::fs::hard_link(folder.path().join(secret), &twin).unwrap();
        let found = twin.metadata().unwrap();
        assert!(control.refuses_hard_link(&root, (found.dev(), found.ino())).is_some(), "{secret}");
    }
    let plain = root.join("a.txt");
    std::fs::write(&plain, "").unwrap();
    std::fs::hard_link(&plain, root.join("sub/b.txt")).unwrap();
    let found = plain.metadata().unwrap();
    assert_eq!(control.refuses_hard_link(&root, (found.dev(), found.ino())), None);
}

#[test]
fn a_folder_at_whose_top_something_decides_is_known() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    assert!(!decides_in(folder.path()).unwrap());
    std::fs::write(folder.path().join("Jenkinsfile"), "").unwrap();
    assert!(decides_in(folder.path()).unwrap());
    assert!(decides_in(&folder.path().join("none")).is_err());
}

#[test]
fn code_that_a_started_program_may_load_is_not_written() {
    let control = ControlFiles { loaded: vec!["/p".into()], ..ControlFiles::default() };
    for path in ["/p/helper.py", "/p/srv/__init__.py", "/p/json.py", "/p/Makefile", "/p/a/b/package.json"] {
        assert!(control.refuses(Touch::Write, Path::new(path)).is_some(), "{path}");
        assert!(control.refuses(Touch::Read, Path::new(path)).is_none(), "{path}");
    }
    for path in ["/p/notes.md", "/q/helper.py"] {
        assert!(control.refuses(Touch::Write, Path::new(path)).is_none(), "{path}");
    }
}

#[test]
fn the_documentation_shows_the_table() {
    let mut table = String::from("| | what it holds | names |\n| --- | --- | --- |\n");
    for group in TABLE {
        let holds = match group.holds {
            Holds::Secrets => "secrets: not read, not written",
            Holds::Runs => "runs: not read, not written",
            Holds::Decisions => "decisions: not written",
        };
        let names: Vec<String> = group.patterns.iter().map(|pattern| format!("`{pattern}`")).collect();
        table.push_str(&format!("| {} | {holds} | {} |\n", group.title, names.join(", ")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find("<!-- control-files").unwrap();
    let begin = begin + page[begin..].find('\n').unwrap() + 1;
    let end = page.find("<!-- end of control-files -->").unwrap();
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        std::fs::write(&path, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(
        page.contains(&table),
        "`SNAPSHOTS=overwrite cargo test -p opcell-types --lib control` writes docs/security.md"
    );
}
