//! Compiled components on disk.
//!
//! Loading a compiled component runs whatever native code it holds, so an entry is only as trustworthy as whoever could
//! write it. Each entry carries a keyed MAC over {place, engine, component digest, compiled digest}. The key lies in a
//! directory of its own, among the user's state: never beside the entries, and neither directory is ever named by a
//! project file or reached by a grant.
//!
//! *Place* binds entries to where they were made: the paths and inodes of cache and key, the user and the machine. A
//! cache or a key that was unpacked, copied or checked out from somewhere else therefore vouches for nothing, whatever
//! its modes say. The cache is no defence against a process that can read the key: that process already is this user.
//!
//! Invariants: both directories are ours, 0700 and not symbolic links; the key file is ours and 0600; entries are
//! opened without following links and their MAC is checked on the very bytes that are loaded; an entry that fails is
//! set aside and made again.
//!
//! The cache is bounded: when it has more than [`MAX_CACHE_BYTES`], the entries that were not used for the longest time go.
//! That a component could not be compiled within the limits is kept as well, for [`REFUSED_FOR`]: otherwise whoever
//! offers it again and again keeps the compiler busy.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A cache directory that is not safe to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The directory or its key cannot be made or opened.
    #[error("the cache `{}` cannot be used: {error}; choose another directory", .path.display())]
    Io {
        /// Directory or key file.
        path: PathBuf,
        /// Why; part of the message, and therefore not a source that would be printed once more.
        error: io::Error,
    },
    /// Another user could have written it.
    #[error("the cache `{}` is not safe: {reason}; remove it or choose another directory", .path.display())]
    Unsafe {
        /// Directory or key file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

/// The directory of compiled components, and the key that vouches for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePlace {
    /// The directory of the entries. Made, with mode 0700, where it does not exist.
    pub directory: PathBuf,
    /// The directory of the key. Neither directory may contain the other.
    pub keys: PathBuf,
}

/// The key of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a> {
    /// [`crate::engine::compatibility`] of the engine.
    pub(crate) engine: &'a str,
    /// BLAKE3 of the component.
    pub(crate) component: &'a blake3::Hash,
}

impl Key<'_> {
    fn file_name(&self, place: &blake3::Hash) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(place.as_bytes()).update(self.engine.as_bytes()).update(self.component.as_bytes());
        format!("{}.native", hasher.finalize().to_hex())
    }
}

/// The result of a look-up by key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Whole and ours.
    Compiled(Vec<u8>),
    /// Nothing there.
    Nothing,
    /// Something was there and was set aside.
    Quarantined { reason: String },
}

/// An open cache directory.
#[derive(Debug)]
pub(crate) struct Cache {
    path: PathBuf,
    directory: OwnedFd,
    key: [u8; 32],
    /// Digest of where the entries and the key lie, and of whose they are.
    place: blake3::Hash,
    /// See [`MAX_CACHE_BYTES`].
    most: u64,
}

/// Bytes of all entries.
const MAX_CACHE_BYTES: u64 = 4 << 30;

/// The time for which a component that exceeded a limit is not compiled again.
const REFUSED_FOR: Duration = Duration::from_secs(3_600);

/// The age at which a file that is still being written counts as left behind by a process that died.
const LEFT_BEHIND: Duration = Duration::from_secs(3_600);

const KEY_FILE: &str = "mac.key";
const MAC_BYTES: usize = 32;

impl Cache {
    /// Opens or makes both directories, and the key.
    pub(crate) fn open(place: &CachePlace) -> Result<Self, CacheError> {
        let path = &place.directory;
        let (directory, keys) = (open_private(path)?, open_private(&place.keys)?);
        let io = |error: io::Error| CacheError::Io { path: path.clone(), error };
        let (real, real_keys) = (path.canonicalize().map_err(io)?, place.keys.canonicalize().map_err(io)?);
        if real.starts_with(&real_keys) || real_keys.starts_with(&real) {
            let reason = format!("its key would lie with it, in `{}`", place.keys.display());
            return Err(CacheError::Unsafe { path: path.clone(), reason });
        }
        let key_path = place.keys.join(KEY_FILE);
        let key = read_key(&keys).map_err(|error| CacheError::Io { path: key_path.clone(), error })?;
        let (key, key_inode) = key.map_err(|reason| CacheError::Unsafe { path: key_path, reason })?;
        let inode = rustix::fs::fstat(&directory).map_err(|error| io(error.into()))?.st_ino;
        let place = place_of(&[(&real, inode), (&real_keys, key_inode)]);
        Ok(Self { path: path.clone(), directory, key, place, most: MAX_CACHE_BYTES })
    }

    /// The compiled component for `key`, if it is whole and ours.
    pub(crate) fn get(&self, key: Key<'_>) -> Found {
        let name = key.file_name(&self.place);
        match self.read(&name, key, None) {
            Ok(Some(compiled)) => Found::Compiled(compiled),
            Ok(None) => Found::Nothing,
            Err(reason) => {
                // Out of the way under a name that nothing loads; removed if even that is impossible.
                let aside = format!("{name}.quarantined");
                if rustix::fs::renameat(&self.directory, &*name, &self.directory, &*aside).is_err() {
                    let _ = rustix::fs::unlinkat(&self.directory, &*name, AtFlags::empty());
                }
                tracing::warn!(cache = %self.path.display(), entry = name, reason, "a cached component was discarded and is compiled again");
                Found::Quarantined { reason }
            }
        }
    }

    /// Why the component was not compiled a short while ago, if it exceeded a limit then.
    pub(crate) fn refusal(&self, key: Key<'_>) -> Option<String> {
        let kept = self.read(&key.file_name(&self.place), key, Some(REFUSED_FOR)).ok()??;
        String::from_utf8(kept).ok()
    }

    /// Removes entries until they have at most nine tenths of what they may have, if they have more than they may.
    fn shrink(&self) -> io::Result<()> {
        let (mut entries, mut total) = (Vec::new(), 0);
        for entry in Dir::read_from(&self.directory)? {
            let name = entry?.file_name().to_owned();
            let Ok(status) = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
                continue;
            }
            let bytes = u64::try_from(status.st_size).unwrap_or(0);
            if name.to_bytes().ends_with(b".native") {
                entries.push((status.st_mtime, status.st_mtime_nsec, bytes, name));
                total += bytes;
            } else if age(&status) > LEFT_BEHIND {
                let _ = rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty());
            }
        }
        if total <= self.most {
            return Ok(());
        }
        entries.sort();
        for (_, _, bytes, name) in entries {
            if total <= self.most / 10 * 9 {
                break;
            }
            rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty())?;
            total -= bytes;
        }
        Ok(())
    }

    /// Keeps a compiled component. The caller continues without it when this fails: a full disk must not stop a plugin.
    pub(crate) fn put(&self, key: Key<'_>, compiled: &[u8]) -> io::Result<()> {
        let name = key.file_name(&self.place);
        let unique = uuid::Uuid::new_v4();
        let temporary = format!("{name}.{unique}.tmp");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.directory, &*temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file
            .write_all(self.mac(key, compiled).as_bytes())
            .and_then(|()| file.write_all(compiled))
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(rustix::fs::renameat(&self.directory, &*temporary, &self.directory, &*name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.directory, &*temporary, AtFlags::empty());
        }
        if let Err(error) = self.shrink() {
            tracing::warn!(cache = %self.path.display(), %error, "the cache cannot be shrunk");
        }
        written
    }

    /// The content of an entry, which must not be older than `within`. Reading one without that counts as using it.
    fn read(&self, name: &str, key: Key<'_>, within: Option<Duration>) -> Result<Option<Vec<u8>>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        check_owned(&file, FileType::RegularFile, 0o600).map_err(|error| error.to_string())??;
        let status = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
        match within {
            Some(within) if age(&status) > within => return Ok(None),
            Some(_) => {}
            None => {
                let keep = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
                let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
                // Where the time cannot be set, the entry looks older than it is, and goes sooner.
                let _ = rustix::fs::futimens(&file, &Timestamps { last_access: keep, last_modification: now });
            }
        }
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let Some((mac, compiled)) = bytes.split_first_chunk::<MAC_BYTES>() else {
            return Err("it is too short".to_owned());
        };
        // The comparison of two `blake3::Hash` takes the same time wherever they differ.
        if blake3::Hash::from_bytes(*mac) != self.mac(key, compiled) {
            return Err("its MAC is wrong".to_owned());
        }
        bytes.drain(..MAC_BYTES);
        Ok(Some(bytes))
    }

    fn mac(&self, key: Key<'_>, compiled: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(self.place.as_bytes());
        hasher.update(&(key.engine.len() as u64).to_le_bytes());
        hasher.update(key.engine.as_bytes());
        hasher.update(key.component.as_bytes());
        hasher.update(blake3::hash(compiled).as_bytes());
        hasher.finalize()
    }
}

/// Returns the time since a file was written, or an entry used.
fn age(status: &Stat) -> Duration {
    let since = Duration::from_secs(u64::try_from(status.st_mtime).unwrap_or(0));
    SystemTime::now().duration_since(UNIX_EPOCH + since).unwrap_or_default()
}

/// The inner error says what is wrong with a file that exists.
fn check_owned(file: &OwnedFd, expected: FileType, mode: u32) -> io::Result<Result<(), String>> {
    Ok(check_status(&rustix::fs::fstat(file)?, expected, mode, rustix::process::geteuid().as_raw()))
}

/// The rule behind [`check_owned`]: of the expected type, of the user `ours`, and with no permission beyond `mode`.
fn check_status(status: &Stat, expected: FileType, mode: u32, ours: u32) -> Result<(), String> {
    if FileType::from_raw_mode(status.st_mode) != expected {
        let expected = if expected == FileType::Directory { "a directory" } else { "a regular file" };
        return Err(format!("it is not {expected}"));
    }
    if status.st_uid != ours {
        return Err(format!("it belongs to user {}, and this is user {ours}", status.st_uid));
    }
    if status.st_mode & 0o777 & !mode != 0 {
        return Err(format!("its mode is {:o}, expected {mode:o}", status.st_mode & 0o777));
    }
    Ok(())
}

/// Opens or makes a directory that is this user's alone.
fn open_private(path: &Path) -> Result<OwnedFd, CacheError> {
    let io = |error: io::Error| CacheError::Io { path: path.to_owned(), error };
    let unsafe_because = |reason| CacheError::Unsafe { path: path.to_owned(), reason };
    if let Some(parent) = path.parent() {
        opcell_types::files::Folder::open_or_make(parent, opcell_types::files::Readers::Owner).map_err(io)?;
    }
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(io(error.into())),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
            unsafe_because("it is a symbolic link or not a directory".to_owned())
        }
        other => io(other.into()),
    })?;
    check_owned(&directory, FileType::Directory, 0o700).map_err(io)?.map_err(unsafe_because)?;
    Ok(directory)
}

/// Returns a hash that binds entries and key to this place: their paths and inodes, the user, the machine. An archive
/// cannot choose an inode.
fn place_of(parts: &[(&PathBuf, u64)]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 place of compiled components");
    for (path, inode) in parts {
        let path = path.as_os_str().as_encoded_bytes();
        hasher.update(&(path.len() as u64).to_le_bytes()).update(path).update(&inode.to_le_bytes());
    }
    hasher.update(&rustix::process::geteuid().as_raw().to_le_bytes());
    // Where no file names the machine, the inodes still distinguish a copy from the original.
    let machine = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().find_map(|file| std::fs::read(file).ok());
    hasher.update(&machine.unwrap_or_default());
    hasher.finalize()
}

/// The key and its inode; a new key where there is none.
fn read_key(directory: &OwnedFd) -> io::Result<Result<([u8; 32], u64), String>> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A new key takes its place in one step, so that a process that starts at the same time never reads half of one.
    let temporary = format!("{KEY_FILE}.{}.tmp", uuid::Uuid::new_v4());
    if rustix::fs::statat(directory, KEY_FILE, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let mut file = File::from(rustix::fs::openat(directory, &*temporary, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&key).and_then(|()| file.sync_data())?;
        // `linkat` fails when another process was faster; then its key counts.
        let _ = rustix::fs::linkat(directory, &*temporary, directory, KEY_FILE, AtFlags::empty());
        let _ = rustix::fs::unlinkat(directory, &*temporary, AtFlags::empty());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, KEY_FILE, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Ok(Err("it is a symbolic link".to_owned())),
        other => other?,
    };
    if let Err(reason) = check_owned(&file, FileType::RegularFile, 0o600)? {
        return Ok(Err(reason));
    }
    let inode = rustix::fs::fstat(&file)?.st_ino;
    let mut key = Vec::new();
    File::from(file).take(64).read_to_end(&mut key)?;
    let whole = <[u8; 32]>::try_from(key).map_err(|key| format!("it has {} bytes, expected 32", key.len()));
    Ok(whole.map(|key| (key, inode)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn place(directory: &Path) -> CachePlace {
        CachePlace { directory: directory.join("cache"), keys: directory.join("keys") }
    }

    fn open() -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(&place(directory.path())).unwrap();
        (directory, cache)
    }

    fn entry(cache: &Cache, key: Key<'_>) -> PathBuf {
        cache.path.join(key.file_name(&cache.place))
    }

    fn component() -> blake3::Hash {
        blake3::hash(b"component")
    }

    fn key(component: &blake3::Hash) -> Key<'_> {
        Key { engine: "e1", component }
    }

    #[test]
    fn what_was_put_is_found_again_by_another_process_with_the_same_directory() {
        let (directory, cache) = open();
        cache.put(key(&component()), b"code").unwrap();
        let again = Cache::open(&place(directory.path())).unwrap();
        assert_eq!(again.get(key(&component())), Found::Compiled(b"code".to_vec()));
        assert_eq!(again.get(Key { engine: "e2", component: &component() }), Found::Nothing);
    }

    #[test]
    fn a_cache_that_was_unpacked_with_its_key_somewhere_else_vouches_for_nothing() {
        let (directory, cache) = open();
        cache.put(key(&component()), b"code").unwrap();
        let there = tempfile::tempdir().unwrap();
        // As `tar x` or `cp -a` does: every byte, name and mode is the same.
        let copied = std::process::Command::new("cp")
            .args(["-a", "cache", "keys"])
            .arg(there.path())
            .current_dir(directory.path())
            .status()
            .unwrap();
        assert!(copied.success());
        let unpacked = Cache::open(&place(there.path())).unwrap();
        assert_eq!(unpacked.key, cache.key, "the key itself was copied, so only its place differs");
        assert_eq!(unpacked.get(key(&component())), Found::Nothing);
        // Not even under the name that this place gives the entry.
        std::fs::rename(entry(&cache, key(&component())), entry(&unpacked, key(&component()))).unwrap();
        assert_eq!(unpacked.get(key(&component())), Found::Quarantined { reason: "its MAC is wrong".to_owned() });
    }

    #[test]
    fn a_key_may_not_lie_with_what_it_vouches_for() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        let open = std::fs::Permissions::from_mode(0o700);
        std::fs::create_dir(&cache).unwrap();
        std::fs::set_permissions(&cache, open.clone()).unwrap();
        std::fs::set_permissions(directory.path(), open).unwrap();
        for keys in [cache.clone(), cache.join("keys"), directory.path().to_owned()] {
            let error = Cache::open(&CachePlace { directory: cache.clone(), keys }).unwrap_err().to_string();
            assert!(error.contains("its key would lie with it"), "{error}");
        }
    }

    #[test]
    fn any_changed_byte_quarantines_the_entry() {
        let (_directory, cache) = open();
        for position in [0, 31, 32, 35] {
            cache.put(key(&component()), b"code").unwrap();
            let path = entry(&cache, key(&component()));
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[position] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(cache.get(key(&component())), Found::Quarantined { reason: "its MAC is wrong".to_owned() });
            assert_eq!(cache.get(key(&component())), Found::Nothing);
        }
    }

    #[test]
    fn an_entry_moved_to_another_component_is_refused() {
        let (_directory, cache) = open();
        cache.put(key(&component()), b"code").unwrap();
        let other = blake3::hash(b"other");
        std::fs::rename(entry(&cache, key(&component())), entry(&cache, key(&other))).unwrap();
        assert!(matches!(cache.get(key(&other)), Found::Quarantined { .. }));
    }

    #[test]
    fn an_entry_that_is_a_link_or_a_pipe_is_refused_without_waiting() {
        let (directory, cache) = open();
        cache.put(key(&component()), b"code").unwrap();
        let path = entry(&cache, key(&component()));
        let elsewhere = directory.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert_eq!(cache.get(key(&component())), Found::Quarantined { reason: "it is a symbolic link".to_owned() });
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(matches!(cache.get(key(&component())), Found::Quarantined { .. }));
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let (directory, cache) = open();
        drop(cache);
        let path = directory.path().join("cache");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        let error = Cache::open(&place(directory.path())).unwrap_err().to_string();
        assert!(error.contains("its mode is 770, expected 700"), "{error}");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_whoever_we_are() {
        let directory = tempfile::tempdir().unwrap();
        let mut status = rustix::fs::stat(directory.path()).unwrap();
        status.st_mode = FileType::Directory.as_raw_mode() | 0o700;
        let check = |status: &Stat, ours| check_status(status, FileType::Directory, 0o700, ours);
        for (owner, ours) in [(1_000, 1_001), (1_000, 0), (0, 1_000)] {
            status.st_uid = owner;
            assert_eq!(check(&status, owner), Ok(()));
            assert_eq!(check(&status, ours), Err(format!("it belongs to user {owner}, and this is user {ours}")));
        }
        // Not even when everything else about it is right, and before anything else about it is reported.
        status.st_mode |= 0o077;
        assert!(check(&status, 1_000).unwrap_err().starts_with("it belongs to user 0"));
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let ours = rustix::process::geteuid();
        // Root can give a directory away; for everybody else, `/` is one that root never gave them.
        let (path, owner) = if ours.is_root() {
            let path = directory.path().join("cache");
            drop(Cache::open(&place(directory.path())).unwrap());
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            (path, 65_534)
        } else {
            (PathBuf::from("/"), 0)
        };
        let place = CachePlace { directory: path.clone(), keys: directory.path().join("keys") };
        let error = Cache::open(&place).unwrap_err();
        assert!(matches!(&error, CacheError::Unsafe { path: named, .. } if *named == path), "{error:?}");
        let reason = format!("it belongs to user {owner}, and this is user {}", ours.as_raw());
        assert!(error.to_string().contains(&reason), "{error}");
    }

    #[test]
    fn a_key_or_an_entry_of_another_user_is_refused() {
        let ours = rustix::process::geteuid();
        if !ours.is_root() {
            // Who cannot give a file away looks at one that never was theirs.
            let file = File::open("/etc/passwd").unwrap().into();
            let refused = check_owned(&file, FileType::RegularFile, 0o777).unwrap().unwrap_err();
            assert_eq!(refused, format!("it belongs to user 0, and this is user {}", ours.as_raw()));
            return;
        }
        let (directory, cache) = open();
        cache.put(key(&component()), b"code").unwrap();
        std::os::unix::fs::chown(entry(&cache, key(&component())), Some(65_534), None).unwrap();
        let Found::Quarantined { reason } = cache.get(key(&component())) else { panic!("it was taken") };
        assert!(reason.starts_with("it belongs to user 65534"), "{reason}");

        std::os::unix::fs::chown(place(directory.path()).keys.join(KEY_FILE), Some(65_534), None).unwrap();
        let error = Cache::open(&place(directory.path())).unwrap_err().to_string();
        assert!(error.contains("mac.key` is not safe: it belongs to user 65534"), "{error}");
    }

    #[test]
    fn a_directory_that_is_a_link_is_refused() {
        let (directory, _cache) = open();
        let link = directory.path().join("link");
        symlink(directory.path().join("cache"), &link).unwrap();
        let linked = CachePlace { directory: link, ..place(directory.path()) };
        assert!(matches!(Cache::open(&linked), Err(CacheError::Unsafe { .. })));
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_short_is_refused() {
        let (directory, _cache) = open();
        let place = place(directory.path());
        let key = place.keys.join(KEY_FILE);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Cache::open(&place).unwrap_err().to_string().contains("its mode is 644"));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&key, b"short").unwrap();
        assert!(Cache::open(&place).unwrap_err().to_string().contains("it has 5 bytes"));
    }

    fn written_ago(path: &Path, ago: Duration) {
        File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - ago).unwrap();
    }

    #[test]
    fn the_entries_that_were_not_used_for_longest_go_when_there_are_too_many() {
        let (_directory, mut cache) = open();
        let components: Vec<_> = (0..10u8).map(|at| blake3::hash(&[at])).collect();
        for (at, component) in components.iter().enumerate() {
            cache.put(key(component), &[0; 1_000]).unwrap();
            written_ago(&entry(&cache, key(component)), Duration::from_secs(100 - at as u64));
        }
        // The oldest is used once more.
        assert!(matches!(cache.get(key(&components[0])), Found::Compiled(_)));
        let aside = cache.path.join("x.tmp");
        std::fs::write(&aside, "").unwrap();
        written_ago(&aside, LEFT_BEHIND * 2);
        cache.most = 10 * (1_000 + MAC_BYTES as u64);
        cache.put(key(&component()), &[0; 1_000]).unwrap();
        let kept: Vec<usize> = (0..10).filter(|at| entry(&cache, key(&components[*at])).exists()).collect();
        assert_eq!(kept, [0, 3, 4, 5, 6, 7, 8, 9]);
        assert!(entry(&cache, key(&component())).exists() && !aside.exists());
    }

    #[test]
    fn a_refusal_is_remembered_for_an_hour_under_the_same_limits() {
        let (_directory, cache) = open();
        let refused = Key { engine: "e1 refused under 1 s", component: &component() };
        assert_eq!(cache.refusal(refused), None);
        cache.put(refused, b"1 s of wall time").unwrap();
        assert_eq!(cache.refusal(refused).as_deref(), Some("1 s of wall time"));
        assert_eq!(cache.refusal(Key { engine: "e1 refused under 2 s", ..refused }), None);
        assert_eq!(cache.get(key(&component())), Found::Nothing);
        written_ago(&entry(&cache, refused), REFUSED_FOR + Duration::from_secs(60));
        assert_eq!(cache.refusal(refused), None);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let (_directory, cache) = open();
        // A directory in the place of the entry makes the last step fail.
        std::fs::create_dir_all(entry(&cache, key(&component())).join("full")).unwrap();
        assert!(cache.put(key(&component()), b"code").is_err());
        let left: Vec<_> = std::fs::read_dir(&cache.path).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
