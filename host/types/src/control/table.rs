//! The table of names: patterns, grouped by whom they concern.
//!
//! A pattern is one name, or several that follow each other (`.docker/config.json`); `*` matches any characters within
//! a name, and a slash at the end any file or folder of that name with everything below it. Names are compared as
//! [`super`] sees them: in lower case, and without what some file systems ignore.

use std::{collections::HashMap, sync::LazyLock};

/// The content of a file, as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Secrets: neither read nor written.
    Secrets,
    /// Runs and what they were given: neither read nor written.
    Runs,
    /// Decisions about what runs: read, but not written.
    Decisions,
}

/// Patterns that have a reason in common.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Group {
    /// The subject that the names have in common, as the documentation shows it.
    pub title: &'static str,
    /// The content of such files.
    pub holds: Holds,
    /// The patterns.
    pub patterns: &'static [&'static str],
}

const fn group(title: &'static str, holds: Holds, patterns: &'static [&'static str]) -> Group {
    Group { title, holds, patterns }
}

/// Every pattern. Of `.git` nothing is read but [`HARMLESS_OF_GIT`]; of `.opcell` nothing but [`OPEN_OF_OPCELL`].
pub const TABLE: &[Group] = &[
    group("Opcell", Holds::Decisions, &["opcell.toml", "opcell.lock", ".opcell/", ".psi/", "opcell-vendor/"]),
    group("journals and stores", Holds::Runs, &["runs.db", "runs.db-*", "runs.db.*/", "runs.stores.db*"]),
    group(
        "version control",
        Holds::Decisions,
        &[
            ".git/",
            "*.git/",
            "git~?/",
            ".hg/",
            ".jj/",
            ".svn/",
            ".bzr/",
            "_darcs/",
            ".pijul/",
            ".fslckout",
            "_fossil_",
            ".sl/",
            ".repo/",
            ".gitmodules",
            ".gitattributes",
            ".gitconfig",
            ".lfsconfig",
            ".hgrc",
            ".hgsub",
            ".hgsubstate",
        ],
    ),
    // Git takes a folder with `HEAD`, `objects` and `refs` for a repository, and runs what its `config` names.
    group("a bare repository", Holds::Decisions, &["head", "commondir", "config.worktree"]),
    group(
        "hooks",
        Holds::Decisions,
        &[
            ".husky/",
            ".huskyrc*",
            ".githooks/",
            ".git-hooks/",
            ".pre-commit*",
            "prek.toml",
            "lefthook*",
            ".lefthook*",
            ".overcommit.yml",
            "captainhook.json",
            "grumphp.y*ml",
            ".lintstagedrc*",
            "lint-staged.config.*",
            ".trunk/",
        ],
    ),
    group(
        "pipelines",
        Holds::Decisions,
        &[
            ".github/",
            ".gitlab/",
            "*.gitlab-ci.y*ml",
            ".gitlab-ci*",
            ".gitea/",
            ".forgejo/",
            ".codeberg/",
            ".circleci/",
            ".travis.y*ml",
            "jenkinsfile*",
            "*.jenkinsfile",
            ".jenkins/",
            "jenkins.y*ml",
            ".jenkinsx/",
            "azure-pipelines*",
            ".azure-pipelines/",
            ".azuredevops/",
            ".pipelines/",
            "bitbucket-pipelines*",
            ".bitbucket/",
            ".woodpecker*/",
            ".drone*/",
            ".buildkite*/",
            "buildkite.y*ml",
            "*appveyor.y*ml",
            ".cirrus*",
            ".semaphore/",
            ".teamcity/",
            ".tekton/",
            "cloudbuild*.y*ml",
            "cloudbuild*.json",
            "codefresh.y*ml",
            ".codefresh/",
            "wercker.y*ml",
            ".scrutinizer.y*ml",
            "codeship-*.y*ml",
            ".builds/",
            ".build.y*ml",
            ".concourse/",
            "concourse.y*ml",
            ".buddy/",
            "buddy.y*ml",
            "buildspec*.y*ml",
            "appspec.y*ml",
            "amplify.y*ml",
            ".harness/",
            "bitrise.y*ml",
            "codemagic.y*ml",
            ".screwdriver*/",
            "screwdriver.y*ml",
            "screwdriver.yaml",
            "shippable.y*ml",
            ".shippable.y*ml",
            ".solano.y*ml",
            ".gocd*",
            "*.gocd.y*ml",
            ".vela*",
            ".zuul*/",
            "zuul.y*ml",
            "zuul.d/",
            ".prow*/",
            ".space.kts",
            ".onedev*",
            ".hydra/",
            "garnix.y*ml",
            ".earthly/",
            ".dagger/",
            ".evergreen.y*ml",
            "netlify.toml",
            "vercel.json",
            ".mergify*",
            "renovate.json*",
            ".renovaterc*",
            ".goreleaser*",
            ".releaserc*",
            ".argo/",
            ".argocd*",
            ".flux*",
            ".taskcluster*",
            ".ci/",
            ".kokoro/",
        ],
    ),
    group(
        "editors and their environments",
        Holds::Decisions,
        &[
            ".vscode*/",
            ".idea/",
            "*.iml",
            "*.ipr",
            "*.iws",
            ".run/",
            ".zed/",
            ".fleet/",
            ".vs/",
            ".nova/",
            ".helix/",
            ".lapce/",
            ".settings/",
            ".project",
            ".classpath",
            ".cproject",
            "*.code-workspace",
            "*.code-profile",
            "*.sublime-*",
            ".sublime/",
            ".dir-locals*.el",
            ".emacs*/",
            ".projectile",
            ".exrc",
            "_exrc",
            ".nvim*/",
            ".vim*/",
            "_vimrc",
            ".gvimrc",
            "_gvimrc",
            ".lvimrc",
            ".local.vimrc",
            ".vimrc.local",
            ".ycm_extra_conf.py",
            ".clangd/",
            ".ccls*",
            ".kateproject*",
            ".kateconfig",
            ".micro/",
            ".kakrc*",
            ".netbeans*/",
            "nbproject/private/",
            ".devcontainer*/",
            "devfile.y*ml",
            ".devfile.y*ml",
            ".gitpod*",
            ".replit*",
            "replit.nix",
            "devbox.json",
            ".devbox/",
            ".flox/",
            ".direnv/",
            ".mise*/",
            "mise.toml",
            "mise.*.toml",
            "mise.local.toml",
            ".rtx.toml",
            ".tool-versions",
            ".idx/",
            ".coder/",
            ".codesandbox/",
            ".stackblitzrc",
            ".theia/",
            ".lldbinit*",
            ".gdbinit*",
            ".vimspector.json",
            ".ctags*/",
            "autorun.inf",
            ".neoconf.json",
            ".nlsp*/",
            ".luarc.json*",
            ".taplo.toml",
        ],
    ),
    group(
        "shells, interpreters and tool chains",
        Holds::Decisions,
        &[
            ".bashrc*",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".zshrc*",
            ".zshenv*",
            ".zprofile*",
            ".zlogin*",
            ".zlogout*",
            ".kshrc",
            ".mkshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".logout",
            ".inputrc",
            ".screenrc",
            ".tmux.conf*",
            ".tmuxinator*/",
            ".xinitrc",
            ".xsession*",
            ".xprofile",
            ".pam_environment",
            ".forward",
            ".procmailrc",
            ".pdbrc*",
            ".pythonrc*",
            ".pythonstartup*",
            "sitecustomize.py",
            "usercustomize.py",
            ".irbrc",
            ".pryrc",
            ".rdbgrc",
            ".rprofile",
            ".ghci",
            ".ocamlinit",
            ".sqliterc",
            ".psqlrc",
            ".guile",
            ".cargo/config*",
            ".mvn/",
            ".bazelrc*",
            ".buckconfig*",
            ".yarn/releases/",
            ".yarn/plugins/",
            ".pnpmfile.*",
            "pnpmfile.*",
            ".gradle/init*/",
            ".config/fish/",
            ".config/autostart/",
            ".config/systemd/",
            ".config/git/",
            ".local/bin/",
            "authorized_keys*",
            "crontab",
            ".crontab",
        ],
    ),
    group(
        "instructions and settings of agents",
        Holds::Decisions,
        &[
            "agent.md",
            "agents.md",
            "agents.*.md",
            "claude.md",
            "claude.*.md",
            "gemini.md",
            "gemini.*.md",
            "qwen.md",
            "warp.md",
            "conventions.md",
            "crush.md",
            "codex.md",
            "copilot*.md",
            "*.instructions.md",
            "*.chatmode.md",
            "*.prompt.md",
            "skill.md",
            "replit.md",
            "jules.md",
            "devin.md",
            "amp.md",
            "droid.md",
            "grok.md",
            "opencode.json*",
            "crush.json",
            "mcp.json",
            "mcp.y*ml",
            "mcp_config.json",
            "mcp-config.json",
            "mcp.*.json",
            ".mcp*/",
            ".rules/",
            ".agent*/",
            ".ai/",
            ".aiassistant/",
            ".aider*",
            ".aiexclude",
            ".aiignore",
            ".amazonq*/",
            ".amp*/",
            ".augment*/",
            ".bolt/",
            ".claude*/",
            ".cline*/",
            ".codebuddy*/",
            ".codegen/",
            ".codeium*/",
            ".codeiumignore",
            ".codex*/",
            ".cody*/",
            ".continue*/",
            ".copilot*/",
            ".crush*/",
            ".cursor*/",
            ".devin*/",
            ".droid*/",
            ".factory*/",
            ".firebender*/",
            "firebender.json",
            ".gemini*/",
            ".goose*/",
            ".grok*/",
            ".iflow*/",
            ".jules*/",
            ".junie*/",
            ".kilo*/",
            ".kiro*/",
            ".lingma/",
            ".llm/",
            ".opencode*/",
            ".openhands*/",
            ".pearai*/",
            ".pi/",
            ".plandex*/",
            ".qoder*/",
            ".qwen*/",
            ".refact*/",
            ".roo*/",
            ".rovodev*/",
            ".sourcegraph/",
            ".supermaven*/",
            ".tabby*/",
            ".tabnine*/",
            ".trae*/",
            ".void/",
            ".warp/",
            ".windsurf*/",
            ".zencoder*/",
            ".cagent*/",
            ".ruler/",
            ".clawdbot/",
        ],
    ),
    group(
        "environment files and variables of infrastructure",
        Holds::Secrets,
        &[
            ".env*/",
            "*.env",
            "*.env.local",
            "*.env.*.local",
            ".flaskenv*",
            ".dev.vars*",
            ".prod.vars*",
            ".staging.vars*",
            ".vars*",
            ".renviron*",
            "*.tfstate",
            "*.tfstate.*",
            "*.tfvars",
            "*.tfvars.json",
            ".terraformrc",
            "terraform.rc",
            "local.settings.json",
            "wp-config.php",
        ],
    ),
    group(
        "keys",
        Holds::Secrets,
        &[
            "*.pem",
            "*.key",
            "*.p8",
            "*.p12",
            "*.pfx",
            "*.pkcs12",
            "*.jks",
            "*.keystore",
            "*.bks",
            "*.ppk",
            "*.ovpn",
            "*.jwk",
            "*.kdbx",
            "*.kdb",
            "*.keychain",
            "*.keychain-db",
            "*.agekey",
            "*.keyfile",
            "id_rsa*",
            "id_dsa*",
            "id_ecdsa*",
            "id_ed25519*",
            "*_rsa",
            "*_dsa",
            "*_ecdsa",
            "*_ed25519",
            "ssh_host_*",
            "secring.*",
            "keys.txt",
            "private-key*",
            "private_key*",
            "privatekey*",
            "*-private-key.*",
            "*_private_key.*",
        ],
    ),
    group(
        "credentials and tokens",
        Holds::Secrets,
        &[
            ".netrc*",
            "_netrc",
            ".authinfo*",
            ".npmrc*",
            ".yarnrc*",
            ".pnpmrc",
            ".bunfig.toml",
            ".pypirc",
            ".pgpass*",
            "pgpass.conf",
            ".my.cnf",
            ".mylogin.cnf",
            ".htpasswd*",
            "htpasswd",
            ".git-credentials*",
            ".gitcookies",
            "credential",
            "credentials",
            "credential.*",
            "credentials.*",
            "*credentials*.json",
            ".credential*",
            "*creds*.json",
            "service-account*.json",
            "service_account*.json",
            "serviceaccount*.json",
            "*-firebase-adminsdk-*.json",
            "gcp-key*.json",
            "gcloud*.json",
            "application_default_credentials*",
            "auth.json",
            "auth.toml",
            "auth.y*ml",
            ".auth*",
            "oauth*.json",
            "client_secret*",
            "token",
            "tokens",
            "token.*",
            "tokens.*",
            "*.token",
            "*_token",
            "*-token",
            "*_token.txt",
            "*-token.txt",
            "*_token.json",
            "*-token.json",
            ".token*",
            ".*-token*",
            ".*_token*",
            "api_key*",
            "api-key*",
            "apikey*",
            ".api_key*",
            ".api-key*",
            ".apikey*",
            "*_api_key",
            "*_api_key.txt",
            "password",
            "passwords",
            "password.*",
            "passwords.*",
            "*_password",
            "*_password.txt",
            "*-password.txt",
            "shadow",
            ".passw*",
            "pass.txt",
            "secret",
            "secrets",
            "secret.txt",
            "secrets.txt",
            "secret*.json",
            "secret*.y*ml",
            "secret*.toml",
            "secret*.ini",
            "secret*.env",
            "secret*.enc",
            "secret*.properties",
            "*secrets*.json",
            "*secrets*.y*ml",
            "*secrets*.toml",
            "*.secret",
            "*.secrets",
            "*_secret",
            "*_secret.txt",
            "*-secret.txt",
            ".secret*/",
            ".vault*",
            "vault.y*ml",
            "vault_pass*",
            "vault-pass*",
            "*.vault",
            ".dockercfg",
            ".dockerconfigjson",
            ".docker/config.json",
            ".docker/contexts/",
            "docker_auth*",
            ".s3cfg*",
            ".boto",
            "boto.cfg",
            ".passwd-s3fs",
            ".mc/config.json",
            "rclone.conf",
            ".rclone.conf",
            "kubeconfig*",
            "*.kubeconfig",
            "kube.config",
            "kube_config*",
            ".databrickscfg",
            ".snowsql/",
            ".snowflake/",
            ".dbt/",
            ".smbcredentials",
            ".msmtprc",
            ".fetchmailrc",
            ".mbsyncrc",
            ".offlineimaprc",
            ".muttrc",
            ".ftpconfig",
            "sftp-config.json",
            "sftp.json",
            ".m2/settings*.xml",
            ".gradle/gradle.properties",
            ".bundle/config",
            ".nuget/nuget.config",
            ".subversion/auth/",
            ".config/gh/",
            ".config/gcloud/",
            ".config/hub*",
            ".config/glab-cli/",
            ".config/op/",
            ".config/rclone/",
            ".config/doctl/",
            ".config/sops/",
            ".config/helm/",
            ".config/containers/",
            ".config/configstore/",
            ".config/git/credentials",
            ".idea/datasources*",
            "mac.key",
        ],
    ),
    group(
        "folders of keys and credentials",
        Holds::Secrets,
        &[
            ".ssh/",
            ".gnupg/",
            ".aws/",
            ".azure/",
            ".gcloud/",
            ".gcp/",
            ".kube/",
            ".oci/",
            ".aliyun/",
            ".ibmcloud/",
            ".terraform.d/",
            ".pulumi/",
            ".chef/",
            ".password-store/",
            ".1password/",
            ".bitwarden/",
            ".credentials/",
            ".keys/",
            ".certs/",
            ".step/",
            ".minikube/",
            ".fly/",
            ".railway/",
            ".heroku/",
            ".mozilla/",
            ".thunderbird/",
            "*.agilekeychain/",
            "*.opvault/",
        ],
    ),
    group(
        "settings that often hold a key",
        Holds::Secrets,
        &[
            "pip.conf",
            "pip.ini",
            "nuget.config",
            "keystore.properties",
            "key.properties",
            "signing.properties",
            "appsettings.production.json",
            "local_settings.py",
            "env.production",
            "env.local",
            "my.cnf",
            "wg?.conf",
            "*.keytab",
            "*.pk8",
            "*.gpg",
            "*.har",
            "cookies.txt",
            ".xauthority",
            ".curlrc",
            ".wgetrc",
            ".kaggle/",
            ".jupyter/",
        ],
    ),
    group(
        "histories of commands",
        Holds::Secrets,
        &[
            ".*history",
            ".*history-*",
            ".*_history*",
            ".histfile",
            ".zhistory",
            ".lesshst",
            ".viminfo",
            "fish_history",
            "consolehost_history.txt",
            ".wget-hsts",
            ".dbshell",
            ".mongorc.js",
            ".rhistory",
            ".history/",
            ".recently-used*",
        ],
    ),
];

/// Parts of `.git` that are read: names of commits and branches, and what is in the work tree anyway. Everything else
/// may have addresses with the tokens of remotes in it.
pub const HARMLESS_OF_GIT: [&str; 14] = [
    "head",
    "orig_head",
    "merge_head",
    "cherry_pick_head",
    "revert_head",
    "refs",
    "packed-refs",
    "objects",
    "index",
    "description",
    "info",
    "shallow",
    "commit_editmsg",
    "merge_msg",
];

/// Parts of `.opcell` that are read: the rest are runs.
pub const OPEN_OF_OPCELL: [&str; 2] = ["workflows", "skills"];

/// Words that say that there is no secret in a file: `.env.example`.
const EXAMPLE_ENDINGS: [&str; 7] = ["example", "sample", "template", "dist", "defaults", "tmpl", "tpl"];

/// Extensions of source code and of texts for people: `token.rs` reads tokens, and holds none. Scripts of a shell often
/// hold them, and are none of these.
const SOURCE_ENDINGS: [&str; 44] = [
    "rs", "go", "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "vue", "svelte", "java", "kt", "kts",
    "scala", "groovy", "c", "h", "cc", "cpp", "hpp", "cs", "fs", "swift", "m", "mm", "rb", "php", "ex", "exs", "erl",
    "hs", "ml", "clj", "edn", "lua", "md", "mdx", "rst", "html", "css", "wat",
];

/// Endings that editors and people add to the name of a copy that they leave beside a file.
const COPY_ENDINGS: [&str; 11] =
    ["~", "#", ".bak", ".backup", ".old", ".orig", ".save", ".copy", ".swp", ".swo", ".tmp"];

struct Pattern {
    /// From the outermost name to the innermost.
    names: Vec<&'static str>,
    is_folder: bool,
    holds: Holds,
}

#[derive(Default)]
struct Index {
    /// By the innermost name, where that has no wildcard.
    plain: HashMap<&'static str, Vec<Pattern>>,
    wild: Vec<Pattern>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::default();
    for (holds, pattern) in TABLE.iter().flat_map(|group| group.patterns.iter().map(|pattern| (group.holds, *pattern)))
    {
        let names: Vec<&'static str> = pattern.trim_end_matches('/').split('/').collect();
        let Some(&last) = names.last() else { continue };
        let pattern = Pattern { names, is_folder: pattern.ends_with('/'), holds };
        match last.contains(['*', '?']) {
            true => index.wild.push(pattern),
            false => index.plain.entry(last).or_default().push(pattern),
        }
    }
    index
});

/// The entry of the table for the name at `at`, a part of a path of plain names; the strictest of what applies.
pub(super) fn holds(names: &[String], at: usize) -> Option<Holds> {
    let name = names.get(at)?.as_str();
    let is_last = at + 1 == names.len();
    let originals = originals(name);
    let mut found = None;
    for name in std::iter::once(name).chain(originals.iter().copied()) {
        let known = INDEX.plain.get(name).into_iter().flatten();
        let known = known
            .chain(INDEX.wild.iter().filter(|pattern| pattern.names.last().is_some_and(|last| matches(last, name))));
        for pattern in known {
            // A copy of what decides decides nothing.
            let counts = pattern.holds != Holds::Decisions || name.len() == names.get(at).map_or(0, String::len);
            let is_source = pattern.holds == Holds::Secrets && pattern.names.last() != Some(&name) && is_source(name);
            if (pattern.is_folder || is_last) && counts && !is_source && follows(&pattern.names, names, at) {
                found = Some(strictest(found, pattern.holds));
            }
        }
        if is_last && is_key_without_extension(name) {
            found = Some(strictest(found, Holds::Secrets));
        }
    }
    match found {
        Some(Holds::Secrets) if is_harmless(name) => None,
        found => found,
    }
}

/// Returns `true` if the names before `at` are those of the pattern.
fn follows(pattern: &[&str], names: &[String], at: usize) -> bool {
    let before = names.get(..at).unwrap_or_default();
    let mut wanted = pattern.iter().rev().skip(1);
    let mut found = before.iter().rev();
    wanted.all(|wanted| found.next().is_some_and(|found| matches(wanted, found)))
}

fn strictest(one: Option<Holds>, other: Holds) -> Holds {
    match (one, other) {
        (Some(Holds::Secrets), _) | (_, Holds::Secrets) => Holds::Secrets,
        (Some(Holds::Runs), _) | (_, Holds::Runs) => Holds::Runs,
        _ => Holds::Decisions,
    }
}

/// `id_work` is a key, and `id_map.rs` is not.
fn is_key_without_extension(name: &str) -> bool {
    name.strip_prefix("id_").is_some_and(|rest| !rest.is_empty() && !rest.contains('.'))
}

fn is_source(name: &str) -> bool {
    !name.starts_with('.') && name.rsplit_once('.').is_some_and(|(_, ending)| SOURCE_ENDINGS.contains(&ending))
}

/// An example of a file with secrets, or the public half of a key.
fn is_harmless(name: &str) -> bool {
    if name.ends_with(".pub") {
        return true;
    }
    let last = name.rsplit(['.', '-', '_']).next().unwrap_or_default();
    let words = || name.split(['.', '-', '_']);
    EXAMPLE_ENDINGS.contains(&last) || words().any(|word| matches!(word, "example" | "sample")) && !is_key(name)
}

/// An extension of key files: `example.pem` is a key all the same.
fn is_key(name: &str) -> bool {
    let keys = TABLE.iter().filter(|group| group.title == "keys").flat_map(|group| group.patterns);
    keys.copied().any(|pattern| matches(pattern, name))
}

/// The names of the files that this may be a copy of: what an editor leaves beside a file is as secret as the file.
fn originals(name: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = name;
    for _ in 0..3 {
        let cut = COPY_ENDINGS.iter().find_map(|ending| rest.strip_suffix(ending));
        let cut = cut.or_else(|| rest.strip_prefix('#')).or_else(|| rest.strip_prefix(".#"));
        let Some(cut) = cut.filter(|cut| !cut.is_empty()) else { break };
        rest = cut;
        found.push(rest);
        // Vim puts a dot before the name.
        found.extend(rest.strip_prefix('.').filter(|inner| name.ends_with(".swp") && !inner.is_empty()));
    }
    found
}

/// Matches a name with a pattern: `*` any characters, `?` one. Linear in memory, and in the worst case the product of
/// both lengths in time.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || name.get(n) == Some(wanted) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    p = after_star;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters_and_a_question_mark_one() {
        for (pattern, name) in
            [("*.env", "prod.env"), ("*.env", ".env"), ("a*b*c", "axxbyyc"), ("git~?", "git~1"), ("*", "")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.env", "env"), ("a*b", "ab.c"), ("git~?", "git~"), ("", "x"), ("abc", "ab")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn every_pattern_is_written_as_names_are_compared() {
        for group in TABLE {
            for pattern in group.patterns {
                assert_eq!(pattern.to_ascii_lowercase(), *pattern, "{}", group.title);
                assert!(!pattern.is_empty() && !pattern.starts_with('/'), "{pattern}");
                let twice = TABLE.iter().flat_map(|group| group.patterns).filter(|other| other == &pattern).count();
                assert_eq!(twice, 1, "{pattern} is in the table {twice} times");
            }
        }
    }
}
