//! The parts of commands, and changes of them.

use super::*;
use std::os::unix::fs::symlink;

fn server(root: &Path, command: &[&str]) -> McpServer {
    McpServer {
        arguments: command.iter().skip(1).map(|word| (*word).to_owned()).collect(),
        ..Cover::server(Path::new(command[0]), root)
    }
}

fn ground(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    (folder, root)
}

/// Returns `true` if the digest notices a change of a file.
fn notices(root: &Path, command: &[&str], file: &str) -> bool {
    let server = server(root, command);
    let before = Cover::of(&server, root);
    let check = SameAsConsented { server: server.clone(), root: root.to_owned(), cover: before.clone() };
    assert_eq!(check.check(), Ok(()), "{command:?}");
    fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
    fs::write(root.join(file), format!("{file} has changed")).unwrap();
    let noticed = Cover::of(&server, root) != before;
    assert_eq!(check.check().is_err(), noticed, "{command:?} {file}");
    noticed
}

#[test]
fn what_a_command_loads_is_covered_and_not_only_what_it_names() {
    for (command, loaded) in [
        (&["python3", "-m", "srv"][..], "srv/__init__.py"),
        (&["python3", "-msrv"], "srv/__init__.py"),
        (&["python3", "-m", "srv.main"], "srv/helper.py"),
        (&["python3", "server.py"], "helper.py"),
        (&["python3", "server.py"], "json.py"),
        (&["node", "."], "index.js"),
        (&["node", "srv/main.js"], "srv/lib/new.js"),
        (&["node", "--import=./srv/hook.mjs", "x"], "srv/main.js"),
        (&["npx", "tsx", "srv/main.ts"], "srv/main.js"),
        (&["npx", "tsx", "server"], "helper.py"),
        (&["make", "serve"], "Makefile"),
        (&["npm", "start"], "package.json"),
        (&["cargo", "run"], "src/main.rs"),
        (&["sh", "-c", "cd srv && exec node ."], "srv/main.js"),
        (&["./run"], "run"),
        (&["srv/run", "--config", "srv.toml"], "srv.toml"),
        (&["node", "node_modules/pkg/bin/x.js"], "node_modules/pkg/lib/y.js"),
    ] {
        let (_folder, root) = ground(&[
            "srv/__init__.py",
            "srv/main.py",
            "srv/main.js",
            "srv/main.ts",
            "srv/hook.mjs",
            "srv/run",
            "server.py",
            "server.ts",
            "helper.py",
            "index.js",
            "Makefile",
            "package.json",
            "Cargo.toml",
            "run",
            "srv.toml",
            "node_modules/pkg/bin/x.js",
        ]);
        assert!(notices(&root, command, loaded), "{command:?}: {loaded}");
        assert!(!notices(&root, command, "notes.md"), "{command:?}: notes.md");
    }
}

/// It need not be named to be loaded, and consent is not asked for each time that it changes.
#[test]
fn the_code_of_the_folder_that_a_program_is_started_in_is_not_written() {
    let (_folder, root) = ground(&["srv/main.py", "common/__init__.py", "lib/serve", ".venv/bin/python"]);
    for command in [
        &["python3", "-m", "srv"][..],
        &["python3.11", "-m", "installed_elsewhere"],
        &["python3", "srv/main.py"],
        &[".venv/bin/python", "srv/main.py"],
        &["sh", "srv/main.sh"],
        &["srv/main.py"],
    ] {
        let cover = Cover::of(&server(&root, command), &root);
        assert_eq!(cover.loaded().next(), Some(root.clone()), "{command:?}");
        let fixed: Vec<PathBuf> = cover.fixed().collect();
        assert!(fixed.contains(&root.join(".venv")), "{command:?}: {fixed:?}");
        assert!(fixed.contains(&root.join("node_modules")), "{command:?}: {fixed:?}");
    }
}

#[test]
fn what_is_not_found_is_said_plainly() {
    let (_folder, root) = ground(&["src/main.rs", "data/x.csv"]);
    for command in [
        &["npx", "-y", "some-server"][..],
        &["npx", "-y", "files-server", "."],
        &["docker", "run", "image"],
        &["/usr/bin/server"],
    ] {
        let cover = Cover::of(&server(&root, command), &root);
        assert!(cover.is_nothing(), "{command:?}: {cover:?}");
        assert_eq!(cover.line(|path| path.display().to_string()), "nothing of what it loads is covered");
        assert!(!cover.loaded().any(|_| true));
    }
    // Too much to read.
    for count in 0..=MAX_FILES {
        fs::write(root.join("src").join(format!("f{count}.rs")), "").unwrap();
    }
    assert!(Cover::of(&server(&root, &["cargo", "run"]), &root).is_nothing());
}

#[test]
fn a_server_in_a_folder_of_its_own_is_the_whole_folder_but_what_it_writes() {
    let (_folder, root) =
        ground(&["srv/run", "srv/data.json", "srv/cache/x", "srv/state.db", "srv/__pycache__/x.pyc", "other.py"]);
    let own =
        McpServer { directory: root.join("srv"), write: vec![root.join("srv/cache")], ..server(&root, &["./run"]) };
    let before = Cover::of(&own, &root);
    assert_eq!(before.line(|path| path.strip_prefix(&root).unwrap().display().to_string()), "covers srv");
    assert_eq!(before.fixed().collect::<Vec<_>>(), [root.join("srv")]);
    for (file, noticed) in [
        ("srv/cache/x", false),
        ("srv/state.db", false),
        ("srv/__pycache__/x.pyc", false),
        ("other.py", false),
        ("srv/data.json", true),
    ] {
        let now = Cover::of(&own, &root);
        fs::write(root.join(file), "changed").unwrap();
        assert_eq!(Cover::of(&own, &root) != now, noticed, "{file}");
    }
}

#[test]
fn links_are_covered_by_what_they_say_and_lead_the_walk_nowhere_outside() {
    let (_folder, root) = ground(&["srv/run", "lib/x.js"]);
    let (_elsewhere, outside) = ground(&["y.js"]);
    symlink("../lib", root.join("srv/lib")).unwrap();
    symlink(&outside, root.join("srv/out")).unwrap();
    symlink("nowhere", root.join("srv/dangling")).unwrap();
    symlink(".", root.join("srv/circle")).unwrap();
    assert!(notices(&root, &["srv/run"], "lib/x.js"));
    let before = Cover::of(&server(&root, &["srv/run"]), &root);
    fs::write(outside.join("y.js"), "changed").unwrap();
    assert_eq!(Cover::of(&server(&root, &["srv/run"]), &root), before);
    fs::remove_file(root.join("srv/dangling")).unwrap();
    symlink("elsewhere", root.join("srv/dangling")).unwrap();
    assert_ne!(Cover::of(&server(&root, &["srv/run"]), &root), before);
}

/// A project file may name thousands of servers, and each command looks at them before anyone consented.
#[test]
fn programs_with_the_same_parts_are_read_once() {
    let (_folder, root) = ground(&["src/main.py", "Makefile"]);
    let mut contents = Contents::default();
    let covers: Vec<Cover> =
        ["a", "b", "c"].map(|target| Cover::with(&server(&root, &["make", target]), &root, &mut contents)).into();
    assert!(covers.iter().all(|cover| *cover == Cover::of(&server(&root, &["make", "a"]), &root)));
    assert_eq!((contents.parts.len(), contents.digests.len()), (1, 2));
    let read = MAX_BYTES - contents.bytes_left;
    assert_eq!(read, ("src/main.py".len() + "Makefile".len()) as u64);
}

/// Python compares no source with it, or one that whoever made it knew.
#[test]
fn compiled_python_that_names_its_source_by_a_hash_is_covered() {
    let (_folder, root) = ground(&["srv/__init__.py", "srv/__pycache__/x.cpython-312.pyc"]);
    let server = server(&root, &["python3", "-m", "srv"]);
    let compiled = root.join("srv/__pycache__/x.cpython-312.pyc");
    let write = |flags: u8, code: &[u8]| {
        let head = [0xcb, 0x0d, 0x0d, 0x0a, flags, 0, 0, 0];
        fs::write(&compiled, [&head[..], &[0; 8], code].concat()).unwrap();
    };
    write(0, b"made by its time");
    let before = Cover::of(&server, &root);
    write(0, b"again");
    assert_eq!(Cover::of(&server, &root), before, "Python makes these by itself");
    for flags in [1, 3] {
        write(flags, b"planted");
        assert_ne!(Cover::of(&server, &root), before);
    }
}

/// No variable and no option reaches these interpreters, so that they load what a checkout brings.
#[test]
fn compiled_python_is_covered_where_the_interpreter_cannot_be_told_to_look_elsewhere() {
    let (_folder, root) = ground(&["srv/main.py", "srv/isolated", "srv/plain", "srv/__pycache__/x.cpython-312.pyc"]);
    fs::write(root.join("srv/isolated"), "#!/usr/bin/env -S python3 -I\nimport x\n").unwrap();
    fs::write(root.join("srv/plain"), "#!/usr/bin/env python3\nimport x\n").unwrap();
    let compiled = root.join("srv/__pycache__/x.cpython-312.pyc");
    let commands: [(&[&str], bool); 5] = [
        (&["sh", "-c", "exec python3 -E srv/main.py"], true),
        (&["env", "-i", "python3", "srv/main.py"], true),
        (&["srv/isolated"], true),
        (&["srv/plain"], false),
        (&["python3", "-E", "srv/main.py"], false),
    ];
    for (command, is_covered) in commands {
        let server = server(&root, command);
        fs::write(&compiled, [&[0xcb, 0x0d, 0x0d, 0x0a][..], &[0; 12], b"own"].concat()).unwrap();
        let before = Cover::of(&server, &root);
        fs::write(&compiled, [&[0xcb, 0x0d, 0x0d, 0x0a][..], &[0; 12], b"planted"].concat()).unwrap();
        assert_eq!(Cover::of(&server, &root) != before, is_covered, "{command:?}");
    }
}

/// `json.pyc` comes before the standard library's module, and needs no source.
#[test]
fn compiled_python_beside_sources_is_covered() {
    let (_folder, root) = ground(&["srv/main.py"]);
    let server = McpServer { directory: root.join("srv"), ..server(&root, &["python3", "main.py"]) };
    let before = Cover::of(&server, &root);
    fs::write(root.join("srv/json.pyc"), [0xcb, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0]).unwrap();
    assert_ne!(Cover::of(&server, &root), before);
}

/// Files that the tools read beside the sources, by which they run other programs.
#[test]
fn each_runner_s_own_files_are_code() {
    let read: [(&[&str], &[&str]); 31] = [
        (&["make", "gmake"], &["Makefile", "GNUmakefile", "config.make", "rules.mk"]),
        (&["just"], &["justfile", ".env"]),
        (&["task"], &["Taskfile.yml", "Taskfile.dist.yml"]),
        (&["rake"], &["Rakefile", "x.rake"]),
        (&["npm", "yarn", "pnpm"], &["package.json", ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml"]),
        (&["bun", "deno"], &["bunfig.toml", "deno.json"]),
        (&["tsx", "ts-node"], &["tsconfig.json"]),
        (&["nodemon"], &["nodemon.json"]),
        (&["cargo"], &["Cargo.toml", ".cargo/config.toml", ".cargo/config", "build.rs", "rust-toolchain.toml"]),
        (&["go"], &["go.mod", "go.work", "main.go"]),
        (&["gradle", "gradlew"], &["build.gradle", "gradle.properties", "gradle/wrapper/gradle-wrapper.properties"]),
        (&["mvn", "mvnw"], &["pom.xml", ".mvn/maven.config", ".mvn/extensions.xml", ".mvn/jvm.config"]),
        (&["sbt"], &["build.sbt", "project/build.properties"]),
        (&["lein", "clj", "clojure", "bb"], &["project.clj", "deps.edn", "bb.edn"]),
        (&["mix", "iex"], &["mix.exs", ".iex.exs"]),
        (&["rebar3"], &["rebar.config", "src/x.erl"]),
        (&["bundle"], &["Gemfile", ".bundle/config"]),
        (&["poetry", "pdm", "uv", "rye", "hatch"], &["pyproject.toml", "uv.toml", "poetry.toml", "pdm.toml"]),
        (&["tox", "nox"], &["tox.ini", "noxfile.py"]),
        (&["invoke", "doit"], &["tasks.py", "dodo.py"]),
        (&["scons", "waf"], &["SConstruct", "SConscript", "wscript"]),
        (
            &["dotnet"],
            &["App.csproj", "Directory.Build.props", "Directory.Build.targets", "nuget.config", "global.json"],
        ),
        (&["composer", "artisan"], &["composer.json", "x.php", "artisan"]),
        (&["cmake", "ctest"], &["CMakeLists.txt", "x.cmake", "CMakePresets.json"]),
        (&["meson", "ninja"], &["meson.build", "meson_options.txt", "rules.ninja"]),
        (&["bazel"], &["BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel", "x.bzl", ".bazelrc"]),
        (&["buck", "buck2"], &["BUCK", ".buckconfig"]),
        (&["pants"], &["pants.toml", "BUILD"]),
        (&["docker-compose", "podman-compose"], &["compose.yaml", "docker-compose.override.yml", "Dockerfile", ".env"]),
        (&["honcho", "foreman"], &["Procfile", ".env", ".foreman"]),
        (&["overmind"], &["Procfile", ".overmind.env"]),
    ];
    let known: Vec<&str> = read.iter().flat_map(|(runners, _)| *runners).copied().collect();
    assert_eq!(RUNNERS.iter().filter(|runner| !known.contains(runner)).collect::<Vec<_>>(), Vec::<&&str>::new());
    for file in read.iter().flat_map(|(_, files)| *files) {
        assert!(is_code(Path::new(file)), "{file}");
    }
}

#[test]
fn a_folder_of_packages_within_a_part_is_named_as_not_covered() {
    let (_folder, root) = ground(&["srv/index.js", "srv/node_modules/x/index.js", "srv/__pycache__/y.pyc"]);
    let server = server(&root, &["node", "srv/index.js"]);
    let cover = Cover::of(&server, &root);
    let line = cover.line(|path| path.strip_prefix(&root).unwrap().display().to_string());
    assert_eq!(line, "covers srv; not srv/node_modules");
    fs::create_dir_all(root.join("srv/target")).unwrap();
    assert_eq!(Cover::of(&server, &root), cover, "a build asks for no new consent");
}
