//! Archives of the POSIX format (ustar) without times, owners or orders of the machine that writes them.

use anyhow::{Context as _, Result, anyhow, ensure};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

const BLOCK: usize = 512;
const MAX_NAME: usize = 100;
const MAX_PREFIX: usize = 155;

/// A member's user and group.
#[derive(Clone, Copy)]
pub struct Owner(pub u32);

/// The owner of everything that no other user has to write.
pub const ROOT: Owner = Owner(0);

/// An archive in memory. Members appear in the order in which they are added.
#[derive(Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// Adds a file.
    pub fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.header(name, b'0', mode, ROOT, content.len())?;
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// Adds a folder without its content.
    pub fn folder(&mut self, name: &str, mode: u32, owner: Owner) -> Result<()> {
        self.header(&format!("{name}/"), b'5', mode, owner, 0)
    }

    /// Adds a file of the disk; its mode is 755 if it is executable, otherwise 644.
    pub fn copy(&mut self, name: &str, file: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let executable = fs::metadata(file)?.permissions().mode() & 0o111 != 0;
        self.file(name, if executable { 0o755 } else { 0o644 }, &content)
    }

    /// Adds all regular files below a folder, sorted by name.
    pub fn copy_all(&mut self, name: &str, folder: &Path) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut entries: Vec<_> = entries.collect::<std::io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let file = entry.file_name();
            let file = file.to_str().with_context(|| format!("{} is not UTF-8", entry.path().display()))?;
            let inner = format!("{name}/{file}");
            // Links of this repository lead to what the archive has to hold.
            if fs::metadata(entry.path())?.is_dir() {
                self.copy_all(&inner, &entry.path())?;
            } else {
                self.copy(&inner, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of the archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }

    fn header(&mut self, name: &str, kind: u8, mode: u32, owner: Owner, size: usize) -> Result<()> {
        let (prefix, rest) = split(name)?;
        let mut header = Vec::with_capacity(BLOCK);
        let mut field = |text: &str, width: usize| {
            header.extend_from_slice(text.as_bytes());
            header.resize(header.len() + width - text.len(), 0);
        };
        field(rest, MAX_NAME);
        field(&format!("{mode:07o}"), 8);
        field(&format!("{:07o}", owner.0), 8);
        field(&format!("{:07o}", owner.0), 8);
        field(&format!("{size:011o}"), 12);
        field(&format!("{:011o}", 0), 12);
        // The checksum counts as blanks while it is computed.
        field("        ", 8);
        field(std::str::from_utf8(&[kind])?, 1);
        field("", MAX_NAME);
        field("ustar\u{0}00", 8);
        field("", 32);
        field("", 32);
        field("0000000", 8);
        field("0000000", 8);
        field(prefix, MAX_PREFIX);
        field("", 12);
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header.splice(148..156, format!("{sum:06o}\u{0} ").into_bytes());
        self.0.append(&mut header);
        Ok(())
    }
}

/// Splits a name that is too long for its field at a slash.
fn split(name: &str) -> Result<(&str, &str)> {
    if name.len() <= MAX_NAME {
        return Ok(("", name));
    }
    name.match_indices('/')
        .filter_map(|(at, _)| name.split_at_checked(at))
        .map(|(prefix, rest)| (prefix, rest.trim_start_matches('/')))
        .find(|(prefix, rest)| prefix.len() <= MAX_PREFIX && rest.len() <= MAX_NAME && !rest.is_empty())
        .ok_or_else(|| anyhow!("the name {name:?} is too long for an archive; shorten its file or folder names"))
}

/// Compresses bytes with `gzip`, without a name or a time. `LEVEL=1` in the environment is for tests.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let level = std::env::var("LEVEL").unwrap_or_else(|_| "9".to_owned());
    let mut command = Command::new("gzip");
    command.arg(format!("-{level}n")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start gzip")?;
    let mut input = child.stdin.take().context("gzip has no standard input")?;
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(bytes));
        let output = child.wait_with_output();
        writer.join().map_err(|_| anyhow!("writing to gzip panicked"))??;
        anyhow::Ok(output?)
    })?;
    ensure!(output.status.success(), "gzip ended with {}", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_modes_owners_and_long_names() {
        let long = format!("{}/{}", "folder".repeat(15), "file".repeat(20));
        let mut archive = Tar::default();
        archive.folder("home", 0o700, Owner(65532)).unwrap();
        archive.file(&long, 0o755, b"content").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar.gz");
        fs::write(&file, gzip(&archive.finish()).unwrap()).unwrap();
        let listed = Command::new("tar").args(["--numeric-owner", "--utc", "-tvzf"]).arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        let [home, file] = lines.as_slice() else { unreachable!("{listed}") };
        assert!(home.starts_with("drwx------ 65532/65532") && home.ends_with("1970-01-01 00:00 home/"), "{home}");
        assert!(file.starts_with("-rwxr-xr-x 0/0") && file.ends_with(&long), "{file}");
    }

    #[test]
    fn a_name_without_a_place_to_split_is_refused() {
        let refused = Tar::default().file(&"x".repeat(101), 0o644, b"");
        assert!(refused.is_err_and(|error| error.to_string().contains("too long")));
    }
}
