//! The package: installed into a scratch root, and run from there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
const OPCELL: &str = env!("CARGO_BIN_EXE_opcell");

fn missing(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        eprintln!("SKIPPED: {program} is not installed");
    }
    missing
}

fn script(name: &str, arguments: &[&Path]) -> String {
    let output = Command::new(Path::new(PACKAGING).join(name))
        .args(arguments)
        .envs([("COMPRESSION", "none"), ("LEVEL", "1")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn ok(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// Returns `true` if a program has the names of its functions.
fn has_names(program: &Path) -> bool {
    let names = Command::new("nm").arg(program).output().unwrap();
    String::from_utf8_lossy(&names.stdout).contains("opcell_cli")
}

/// Every unit of systemd.
fn units() -> Vec<PathBuf> {
    let folder = fs::read_dir(Path::new(PACKAGING).join("systemd")).unwrap();
    folder.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_package_installs_a_binary_that_runs_with_completions_manual_and_units_that_systemd_takes() {
    if missing("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = script("deb", &[Path::new(OPCELL), folder.path()]);
    let root = folder.path().join("root");
    ok(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root).output().unwrap());
    let version = ok(Command::new(root.join("usr/bin/opcell")).arg("--version").output().unwrap());
    assert_eq!(version.trim(), format!("opcell {}", env!("CARGO_PKG_VERSION")));
    if !missing("strip") && !missing("objcopy") {
        assert!(has_names(Path::new(OPCELL)));
        assert!(!has_names(&root.join("usr/bin/opcell")), "tables of names are installed");
    }
    for file in [
        "usr/share/bash-completion/completions/opcell",
        "usr/share/zsh/vendor-completions/_opcell",
        "usr/share/fish/vendor_completions.d/opcell.fish",
        "usr/share/man/man1/opcell.1.gz",
        "usr/share/man/man1/opcell-plugin-add.1.gz",
        "usr/lib/systemd/system/opcell-worker.service",
    ] {
        assert!(root.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    let about = ok(Command::new("dpkg-deb").arg("-f").arg(&package).output().unwrap());
    assert!(about.contains("Package: opcell") && about.contains("Depends: libc6"), "{about}");

    if missing("systemd-analyze") {
        return;
    }
    for unit in units() {
        let name = unit.file_name().unwrap();
        let own = root.join("usr/lib/systemd/system").join(name);
        // The units that it needs are of the machine; its program is in the package.
        let text =
            fs::read_to_string(&own).unwrap().replace("/usr/bin/opcell", root.join("usr/bin/opcell").to_str().unwrap());
        fs::write(&own, text).unwrap();
        let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&own).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let about_us: Vec<&str> = said.lines().filter(|line| line.contains("opcell")).collect();
        assert!(about_us.is_empty(), "{said}");
        // 10 is unprotected, 0 is shut off; what runs native code of its own making has 2 or so.
        let security = ["security", "--offline=true", "--threshold=25", "--no-pager"];
        ok(Command::new("systemd-analyze").args(security).arg(&own).output().unwrap());
    }
}

#[test]
fn the_installer_installs_what_has_the_right_checksum_and_nothing_else() {
    if missing("curl") || missing("sha256sum") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let release = folder.path().join(format!("download/v{version}"));
    fs::create_dir_all(&release).unwrap();
    fs::create_dir_all(folder.path().join("latest/download")).unwrap();
    fs::write(folder.path().join("latest/download/VERSION"), version).unwrap();
    let archive = script("archive", &[Path::new(OPCELL), &release]);
    if !missing("objcopy") {
        let symbols = folder.path().join("opcell.debug");
        let packed = archive.replace(".tar.gz", ".debug.gz");
        fs::write(&symbols, Command::new("gzip").arg("-dc").arg(&packed).output().unwrap().stdout).unwrap();
        assert!(has_names(&symbols), "{packed} has no names of functions");
    }
    let name = Path::new(&archive).file_name().unwrap().to_str().unwrap().to_owned();
    let sums = Command::new("sha256sum").arg(&name).current_dir(&release).output().unwrap();
    fs::write(release.join("SHA256SUMS"), &sums.stdout).unwrap();
    let install = || {
        Command::new("sh")
            .arg(Path::new(PACKAGING).join("install.sh"))
            .env("OPCELL_RELEASES", format!("file://{}", folder.path().display()))
            .env("OPCELL_BIN", folder.path().join("bin"))
            .output()
            .unwrap()
    };
    ok(install());
    ok(Command::new(folder.path().join("bin/opcell")).arg("--version").output().unwrap());
    fs::remove_dir_all(folder.path().join("bin")).unwrap();
    let mut bytes = fs::read(&archive).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&archive, bytes).unwrap();
    let refused = install();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("checksum"), "{refused:?}");
    assert!(!folder.path().join("bin/opcell").exists());
}

#[test]
fn the_image_holds_the_binary_certificates_and_a_user_who_is_not_root() {
    if !Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        eprintln!("SKIPPED: this machine has no certificates (Debian: apt install ca-certificates)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    script("image", &[Path::new("root"), Path::new(OPCELL), &root]);
    ok(Command::new(root.join("usr/bin/opcell")).arg("--version").output().unwrap());
    assert!(root.join("etc/ssl/certs/ca-certificates.crt").exists() && root.join("home/opcell").is_dir());
    let dockerfile = fs::read_to_string(Path::new(PACKAGING).join("Dockerfile")).unwrap();
    assert!(
        dockerfile.contains("USER 65532:65532")
            && fs::read_to_string(root.join("etc/passwd")).unwrap().contains(":65532:")
    );
    // What the Dockerfile runs is what was run here.
    let runs: Vec<&str> = dockerfile.lines().filter(|line| line.starts_with("RUN ")).collect();
    assert_eq!(runs, ["RUN packaging/image root \"$(packaging/image build)\" /out"]);
}

#[test]
fn the_doctor_says_what_is_there_and_what_to_do_about_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |home: &str| {
        let mut command = Command::new(OPCELL);
        command.args(["doctor", "--json"]).current_dir(folder.path()).env_clear();
        let output = command.env("PATH", "/nowhere").env("HOME", home).output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said)
    };
    let state = |said: &serde_json::Value, name: &str| {
        let checks = said["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["state"] == "ok", check["remedy"].is_null(), "{check}");
        check["state"].as_str().unwrap().to_owned()
    };
    let (code, said) = asked(folder.path().to_str().unwrap());
    assert_eq!((code, &said["ok"]), (Some(0), &serde_json::Value::Bool(true)), "{said}");
    for name in ["platform", "clock", "cache", "state", "plugins", "project"] {
        assert_eq!(state(&said, name), "ok");
    }
    // Without programs nothing can be built, and without a home nothing is kept.
    assert_eq!(state(&said, "rust plugins"), "degraded");
    assert_eq!(state(&asked("not/absolute").1, "state"), "degraded");
    // What others could change is broken.
    let cache = folder.path().join(".cache/opcell/components");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let (code, said) = asked(folder.path().to_str().unwrap());
    assert_eq!((code, state(&said, "cache").as_str()), (Some(2), "broken"));
}
