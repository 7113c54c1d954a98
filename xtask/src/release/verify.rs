//! Installs every part into an empty folder, and runs its main job there, with nothing of this repository on the path.

use super::{
    Release, Verified,
    layout::Layout,
    local::{self, Published},
    plugins::{Home, said},
    registry::Registry,
    sdk::unpack,
    sha256,
};
use crate::process::{output, root};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Run in a new user and mount namespace: the image's files, read-only, with what a container runtime adds to them.
const CONTAINER: &str = r#"
set -eu
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount -o remount,bind,ro "$1"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
exec unshare --user --map-user=65532 --map-group=65532 --root="$1" --wd=/tmp "$2" "$3" "$4" "$5"
"#;

/// The archive: unpacked, a new project with a first run.
pub fn archive(release: &Release) -> Result<Verified> {
    let home = Home::new("archive")?;
    unpack(&one(&release.out, "opcell-", "-linux-gnu.tar.gz")?, &home.0)?;
    let folder = one(&home.0, "opcell-", "-linux-gnu")?;
    let expected = [
        "LICENSE",
        "README.md",
        "opcell-compile",
        "completions/opcell.bash",
        "man/opcell.1",
        "systemd/opcell-serve.service",
    ];
    all_there(&folder, &expected)?;
    first_run(&folder.join("opcell"), &home)?;
    Ok(Verified::Passed("unpacked; a run is denied a file, granted it, approved and resumed".to_owned()))
}

/// The Debian package: unpacked as a root, a new project with a first run.
pub fn package(release: &Release) -> Result<Verified> {
    if output(Command::new("dpkg-deb").arg("--version")).is_none() {
        return Ok(Verified::Skipped("dpkg-deb is missing".to_owned()));
    }
    let home = Home::new("deb")?;
    let root = home.join("root");
    said(Command::new("dpkg-deb").arg("-x").arg(one(&release.out, "opcell_", ".deb")?).arg(&root))?;
    let expected =
        ["usr/bin/opcell-compile", "usr/share/man/man1/opcell.1.gz", "usr/lib/systemd/system/opcell-serve.service"];
    all_there(&root, &expected)?;
    first_run(&root.join("usr/bin/opcell"), &home)?;
    Ok(Verified::Passed("unpacked; a run is denied a file, granted it, approved and resumed".to_owned()))
}

/// The bill of materials: of this command, and without anything that only tests need.
pub fn bill(release: &Release) -> Result<Verified> {
    let file = one(&release.out, "opcell-", ".cdx.json")?;
    let bill: Value = serde_json::from_slice(&fs::read(&file)?)?;
    ensure!(bill.get("bomFormat").is_some_and(|format| format == "CycloneDX"), "{} is not CycloneDX", file.display());
    let components = bill.get("components").and_then(Value::as_array).context("the bill has no components")?;
    let has = |name: &str| components.iter().any(|component| component.get("name").is_some_and(|found| found == name));
    ensure!(has("wasmtime"), "{} lacks wasmtime, which the command is built with", file.display());
    ensure!(!has("criterion"), "{} has criterion, which only benchmarks need", file.display());
    Ok(Verified::Passed(format!("{} components", components.len())))
}

/// The crates: in an order in which each finds its siblings published, with licence and manifest, and all of them from
/// a registry without a network.
pub fn crates(release: &Release) -> Result<Verified> {
    let home = Home::new("crates")?;
    let folder = release.out.join("crates");
    let order = folder.join("ORDER");
    let order = fs::read_to_string(&order).with_context(|| order.display().to_string())?;
    let names: Vec<&str> =
        order.lines().filter_map(|line| line.strip_suffix(&format!("-{}.crate", release.version()))).collect();
    let mut crates = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let archive = folder.join(format!("{name}-{}.crate", release.version()));
        unpack(&archive, &home.0)?;
        let unpacked = home.join(format!("{name}-{}", release.version()));
        all_there(&unpacked, &["Cargo.toml", "LICENSE"])?;
        let manifest = fs::read_to_string(unpacked.join("Cargo.toml"))?;
        ensure!(!manifest.contains("\npath = \"../"), "{name} depends on a path outside of its package");
        for later in names.iter().skip(at + 1) {
            let needed = manifest.lines().any(|line| {
                line.strip_suffix(']')
                    .and_then(|line| line.strip_suffix(later))
                    .is_some_and(|line| line.ends_with("dependencies."))
            });
            ensure!(!needed, "{name} needs {later}, which is published after it");
        }
        crates.push(Published { folder: unpacked, digest: sha256(&fs::read(&archive)?) });
    }
    let resolved = local::resolve(&home.0, &names, release.version(), &crates, &local::of_lock()?)?;
    Ok(Verified::Passed(format!(
        "{} crates; a program that depends on all of them resolves to {resolved} packages of a registry that has only these and \
         what they need; `cargo xtask package` builds one",
        names.len()
    )))
}

/// The wheel: installed into a new environment without an index.
pub fn wheel(release: &Release) -> Result<Verified> {
    let Ok(wheel) = one(&release.out, "opcell-", ".whl") else {
        return Ok(Verified::Skipped("dist/ has no wheel: cargo xtask release --only wheel".to_owned()));
    };
    let home = Home::new("wheel")?;
    let Some(python) = environment(&home)? else { return Ok(no_python()) };
    said(inside(&python, &home).args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]).arg(wheel))?;
    let echo = root().join("example-operations/dist/echo.wasm");
    let program = format!(
        "import opcell\nhost = opcell.Host(plugins=[opcell.Plugin('echo', {:?})])\nhost.call('echo/echo', {{'text': 'hello'}})",
        echo.display().to_string()
    );
    said(inside(&python, &home).args(["-c", &program]))?;
    Ok(Verified::Passed("installed; a plugin answers".to_owned()))
}

/// The npm package: installed into a new project without a registry.
pub fn npm(release: &Release) -> Result<Verified> {
    let archive = release.out.join(format!("opcell-{}.tgz", release.version()));
    if !archive.is_file() {
        return Ok(Verified::Skipped("dist/ has no npm package: cargo xtask release --only npm".to_owned()));
    }
    if output(Command::new("npm").arg("--version")).is_none() {
        return Ok(Verified::Skipped("npm is missing: it is a part of Node.js, https://nodejs.org".to_owned()));
    }
    let home = Home::new("npm")?;
    fs::write(home.join("package.json"), "{\"private\": true}\n")?;
    let mut install = inside("npm", &home);
    install.args(["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts"]).arg(archive);
    said(install.current_dir(&home.0))?;
    let echo = root().join("example-operations/dist/echo.wasm");
    let program = format!(
        "const {{ Host, Plugin }} = require('opcell');\n\
         new Host({{ plugins: [new Plugin('echo', {:?})] }}).call('echo/echo', {{ text: 'hello' }})",
        echo.display().to_string()
    );
    said(inside("node", &home).args(["-e", &program]).current_dir(&home.0))?;
    Ok(Verified::Passed("installed; a plugin answers".to_owned()))
}

/// The SDKs: installed as their package managers do, with exactly the files that a new plugin gets.
pub fn sdk(release: &Release) -> Result<Verified> {
    let home = Home::new("sdk")?;
    let binary = installed(release, &home)?;
    let mut done = Vec::new();
    for language in ["javascript", "python", "c"] {
        said(inside(&binary, &home).args(["plugin", "new", language, "--lang", language]))?;
    }
    let version = release.version();

    unpack(&release.out.join(format!("opcell-sdk-c-{version}.tar.gz")), &home.0)?;
    same(&home.join("c/sdk"), &home.join(format!("opcell-sdk-c-{version}")), &["opcell.h", "opcell.c"])?;
    done.push("C");

    if output(Command::new("npm").arg("--version")).is_some() {
        let project = home.join("project");
        fs::create_dir_all(&project)?;
        fs::write(project.join("package.json"), "{\"private\": true}\n")?;
        let archive = release.out.join(format!("opcell-sdk-{version}.tgz"));
        let mut install = inside("npm", &home);
        install.args(["install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts"]).arg(archive);
        said(install.current_dir(&project))?;
        let package = project.join("node_modules/@opcell/sdk");
        same(&home.join("javascript/sdk"), &package, &["opcell.js", "opcell.d.ts", "runtime.js"])?;
        let resolve = "console.log(require.resolve('@opcell/sdk'))";
        said(inside("node", &home).args(["-e", resolve]).current_dir(&project))?;
        done.push("JavaScript");
    }
    if let Some(python) = environment(&home)? {
        let archive = release.out.join(format!("opcell_sdk-{version}.tar.gz"));
        // The build needs setuptools, which pip fetches.
        let mut install = inside(&python, &home);
        for variable in ["PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CERT", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy"]
        {
            if let Some(value) = std::env::var_os(variable) {
                install.env(variable, value);
            }
        }
        said(install.args(["-m", "pip", "install", "--quiet", "--no-deps"]).arg(archive))?;
        let find = "import importlib.metadata as m; print(m.distribution('opcell-sdk').locate_file('opcell'))";
        let package = said(inside(&python, &home).args(["-c", find]))?;
        same(&home.join("python/sdk/opcell"), Path::new(package.trim()), &["__init__.py", "schema.py", "py.typed"])?;
        done.push("Python");
    }
    Ok(Verified::Passed(format!("installed, with the files that `opcell plugin new` writes: {}", done.join(", "))))
}

/// The plugins: added from a registry that serves their layouts, by the key that signed them, and called.
pub fn plugins(release: &Release) -> Result<Verified> {
    let home = Home::new("plugins")?;
    let binary = installed(release, &home)?;
    let folder = release.out.join("plugins");
    let publisher = folder.join("PUBLISHER");
    let publisher = fs::read_to_string(&publisher).with_context(|| publisher.display().to_string())?;
    let ending = format!("-{}.oci.tar", release.version());
    let mut layouts = BTreeMap::new();
    for entry in fs::read_dir(&folder)? {
        let file = entry?.path();
        let Some(name) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(&ending)) else { continue };
        let unpacked = home.join(format!("layout-{name}"));
        unpack(&file, &unpacked)?;
        layouts.insert(name.to_owned(), Layout::read(&unpacked)?);
    }
    let names: Vec<String> = layouts.keys().cloned().collect();
    ensure!(names.iter().any(|name| name == "echo"), "{} has no layout of the plugin `echo`", folder.display());
    let registry = Registry::start(layouts)?;
    said(inside(&binary, &home).args(["init", "shop"]))?;
    let project = home.join("shop");
    let opcell = |arguments: &[&str]| said(inside(&binary, &home).args(arguments).current_dir(&project));
    for name in &names {
        opcell(&["plugin", "add", &registry.reference(name, release.version()), "--publisher", publisher.trim()])?;
    }
    opcell(&["plugin", "verify"])?;
    let said = opcell(&["op", "invoke", "echo/echo", "--args", "text=hello"])?;
    ensure!(said.contains("hello"), "echo/echo answered {said:?}");
    Ok(Verified::Passed(format!("added with their signatures: {}; `echo/echo` answers", names.join(", "))))
}

/// The image: unpacked, and run as its user with a read-only root.
pub fn image(release: &Release) -> Result<Verified> {
    let home = Home::new("image")?;
    unpack(&one(&release.out, "opcell-", "-image-x86_64.oci.tar")?, &home.join("layout"))?;
    let layout = Layout::read(&home.join("layout"))?;
    let manifest = layout.manifest(release.version()).context("the layout has no manifest of this version")?;
    let manifest = layout.json(manifest)?;
    let config = layout.json(manifest.get("config").context("the manifest has no config")?)?;
    let user = config.pointer("/config/User").and_then(Value::as_str).unwrap_or_default();
    ensure!(user == "65532:65532", "the image runs as {user:?}, expected the user 65532");
    let files = home.join("root");
    for layer in manifest.get("layers").and_then(Value::as_array).context("the manifest has no layers")? {
        let digest = layer.get("digest").and_then(Value::as_str).unwrap_or_default();
        unpack(&home.join("layout/blobs").join(digest.replace(':', "/")), &files)?;
    }
    let program =
        config.pointer("/config/Entrypoint/0").and_then(Value::as_str).context("the image has no entry point")?;
    if output(Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"])).is_none() {
        return Ok(Verified::Skipped(format!("user {user}; not run: this machine allows no user namespaces")));
    }
    fs::create_dir_all(files.join("proc"))?;
    let mut run = inside("unshare", &home);
    run.args(["--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh"]);
    run.arg(&files).arg(program).args(["selftest", "loop-in-export", "--json"]);
    run.env("HOME", "/tmp");
    said(&mut run)?;
    Ok(Verified::Passed(format!("user {user}; contains a hostile plugin with a read-only root")))
}

/// The book: unpacked, with its first page.
pub fn book(release: &Release) -> Result<Verified> {
    let Ok(archive) = one(&release.out, "opcell-book-", ".tar.gz") else {
        return Ok(Verified::Skipped("dist/ has no book: it needs mdbook".to_owned()));
    };
    let home = Home::new("book")?;
    unpack(&archive, &home.0)?;
    all_there(&one(&home.0, "opcell-book-", "")?, &["index.html", "install.html", "compatibility.html"])?;
    Ok(Verified::Passed("unpacked".to_owned()))
}

/// A command in an empty home, with an environment of its own.
fn inside(program: impl AsRef<std::ffi::OsStr>, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", &home.0).env("PATH", PATH).env("LANG", "C.UTF-8").current_dir(&home.0);
    command
}

/// Makes a project from the example, and runs its workflow: denied, granted, approved, resumed.
fn first_run(binary: &Path, home: &Home) -> Result<()> {
    said(inside(binary, home).args(["init", "--example", "notes", "notes"]))?;
    let opcell = |arguments: &[&str]| said(inside(binary, home).args(arguments).current_dir(home.join("notes")));
    // Denied and suspended runs end with a status of their own, and print the command that continues them.
    let stopped = || opcell(&["run", "today"]).unwrap_or_else(|error| error.to_string());
    let denied = stopped();
    ensure!(denied.contains("plugin grant notes files"), "a plugin without a grant was not denied: {denied}");
    opcell(&["plugin", "grant", "notes", "files", "notes=notes"])?;
    let waiting = stopped();
    let run = waiting.split_once("opcell runs approve ").and_then(|(_, rest)| rest.split_whitespace().next());
    let run = run.with_context(|| format!("the run did not wait for an approval: {waiting}"))?;
    opcell(&["runs", "approve", run, "send", "--why", "verified"])?;
    let result = opcell(&["runs", "resume", run])?;
    ensure!(result.contains("Call Ada"), "the run ended without its result: {result}");
    Ok(())
}

/// Unpacks the archive of the command; returns its binary.
fn installed(release: &Release, home: &Home) -> Result<PathBuf> {
    let folder = home.join("command");
    unpack(&one(&release.out, "opcell-", "-linux-gnu.tar.gz")?, &folder)?;
    Ok(one(&folder, "opcell-", "-linux-gnu")?.join("opcell"))
}

/// A virtual environment of Python; `None` if this machine has no Python that makes one.
fn environment(home: &Home) -> Result<Option<PathBuf>> {
    let Some(python) = output(Command::new("python3").args(["-c", "import ensurepip, sys; print(sys.executable)"]))
    else {
        return Ok(None);
    };
    let folder = home.join("venv");
    said(inside(python.trim(), home).args(["-m", "venv"]).arg(&folder))?;
    Ok(Some(folder.join("bin/python")))
}

fn no_python() -> Verified {
    Verified::Skipped("there is no python3 with venv: sudo apt-get install python3-venv".to_owned())
}

/// Returns the entry of a folder whose name begins and ends so.
fn one(folder: &Path, start: &str, end: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(start) && name.ends_with(end) {
            return Ok(path);
        }
    }
    bail!("{} has no {start}…{end}: build it with `cargo xtask release`", folder.display())
}

fn all_there(folder: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        let there = fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file() && file.len() > 0);
        ensure!(there, "{} lacks {name}", folder.display());
    }
    Ok(())
}

fn same(one: &Path, other: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        let read = |folder: &Path| fs::read(folder.join(name)).with_context(|| folder.join(name).display().to_string());
        ensure!(read(one)? == read(other)?, "{} and {} have another {name}", one.display(), other.display());
    }
    Ok(())
}
