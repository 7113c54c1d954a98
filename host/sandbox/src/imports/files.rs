//! `files`: directories and files below granted roots.
//!
//! A guest holds handles, never host paths. Every open goes through [`beneath`], which follows no symbolic link and
//! cannot leave its directory; what is opened is checked again on the open descriptor. System calls run on blocking
//! threads.

mod beneath;
mod roots;

use beneath::PathError;
pub(crate) use roots::{Root, Roots};

use super::View;
use crate::{
    bindings::opcell::plugin0_1_0::files as wit,
    budget::Interface,
    grants::Policy,
    recording::{Bytes, Step, bytes_to_json, taped},
};
use opcell_types::{Access, Capability, control::Touch, quota::Written, touched::FileAction};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::{os::fd::OwnedFd, path::Path, sync::Arc};
use wasmtime::component::Resource;
use wit::{EntryKind, FileError};

/// Entries of one directory that are listed; a larger directory is an error, never a part of itself.
const MAX_ENTRIES: usize = 20_000;

/// A directory that a cell holds open.
pub struct OpenDirectory {
    root: Arc<Root>,
    descriptor: Arc<OwnedFd>,
    /// From the root; empty for the root itself.
    path: String,
    access: Access,
}

/// A file that a cell holds open.
pub struct OpenFile {
    root: Arc<Root>,
    descriptor: Arc<OwnedFd>,
    writable: bool,
    /// From the root.
    path: String,
    /// The position in the cell's list of touched files; `None` where the list was full.
    touch: Option<usize>,
}

type Answer<T> = wasmtime::Result<Result<T, FileError>>;

/// As [`taped`], for calls that hand out what the guest then holds: a replay hands out a stand-in.
macro_rules! taped_open {
    ($view:ident, $call:literal, $given:expr, $live:expr, $stand_in:expr) => {{
        let given = $view.0.is_taped().then(|| $given);
        match $view.0.begin::<Result<(), FileError>>(Interface::Files, $call, given)? {
            Step::Answered(Ok(())) => $stand_in,
            Step::Answered(Err(error)) => Ok(Err(error)),
            Step::Live(begun) => {
                let answer = $live;
                let opened = answer.as_ref().ok().map(|opened| opened.as_ref().map(|_| ()));
                $view.0.end(begun, opened.as_ref());
                answer
            }
        }
    }};
}

impl wit::Host for View<'_> {
    async fn roots(&mut self) -> wasmtime::Result<Vec<wit::Root>> {
        taped!(self, Files, "files.roots", Value::Null, self.granted_roots())
    }

    async fn open_root(&mut self, name: String) -> Answer<Resource<OpenDirectory>> {
        taped_open!(self, "files.open-root", json!([name]), self.open_granted(&name), {
            let root = Arc::new(Root::stand_in(name)?);
            let descriptor = Arc::clone(&root.descriptor);
            self.keep_directory(OpenDirectory { root, descriptor, path: String::new(), access: Access::ReadWrite })
        })
    }
}

impl wit::HostDirectory for View<'_> {
    async fn entries(&mut self, directory: Resource<OpenDirectory>) -> Answer<Vec<wit::Entry>> {
        taped!(self, Files, "files.entries", self.place(&directory, ""), self.list_directory(&directory).await)
    }

    async fn open_directory(
        &mut self,
        directory: Resource<OpenDirectory>,
        path: String,
    ) -> Answer<Resource<OpenDirectory>> {
        taped_open!(
            self,
            "files.open-directory",
            self.place(&directory, &path),
            self.open_below(&directory, path).await,
            {
                let OpenDirectory { root, descriptor, path: parent, access } = self.0.resources.get(&directory)?;
                let (root, descriptor, access) = (Arc::clone(root), Arc::clone(descriptor), *access);
                let path = join(parent, &path);
                self.keep_directory(OpenDirectory { root, descriptor, path, access })
            }
        )
    }

    async fn open(&mut self, directory: Resource<OpenDirectory>, path: String) -> Answer<Resource<OpenFile>> {
        taped_open!(
            self,
            "files.open",
            self.place(&directory, &path),
            self.open_to_read(&directory, path).await,
            self.stand_in(&directory, &path, false)
        )
    }

    async fn create(&mut self, directory: Resource<OpenDirectory>, path: String) -> Answer<Resource<OpenFile>> {
        taped_open!(
            self,
            "files.create",
            self.place(&directory, &path),
            self.open_to_write(&directory, path).await,
            self.stand_in(&directory, &path, true)
        )
    }

    async fn create_directory(&mut self, directory: Resource<OpenDirectory>, path: String) -> Answer<()> {
        taped!(
            self,
            Files,
            "files.create-directory",
            self.place(&directory, &path),
            self.make_directory(&directory, path).await
        )
    }

    async fn remove(&mut self, directory: Resource<OpenDirectory>, path: String) -> Answer<()> {
        taped!(self, Files, "files.remove", self.place(&directory, &path), self.take_away(&directory, path).await)
    }

    async fn metadata(&mut self, directory: Resource<OpenDirectory>, path: String) -> Answer<wit::Entry> {
        taped!(self, Files, "files.metadata", self.place(&directory, &path), self.look_at(&directory, path).await)
    }

    async fn drop(&mut self, directory: Resource<OpenDirectory>) -> wasmtime::Result<()> {
        self.0.resources.delete(directory)?;
        self.0.open_files.close();
        Ok(())
    }
}

impl wit::HostFile for View<'_> {
    async fn size(&mut self, file: Resource<OpenFile>) -> Answer<u64> {
        taped!(self, Files, "files.size", self.file(&file, &[]), self.measure(&file).await)
    }

    async fn read(&mut self, file: Resource<OpenFile>, offset: u64, length: u32) -> Answer<Vec<u8>> {
        let read: Answer<Bytes> = taped!(
            self,
            Files,
            "files.read",
            self.file(&file, &[json!(offset), json!(length)]),
            self.read_at(&file, offset, length).await
        );
        Ok(read?.map(|Bytes(bytes)| bytes))
    }

    async fn write(&mut self, file: Resource<OpenFile>, bytes: Vec<u8>) -> Answer<()> {
        taped!(self, Files, "files.write", self.file(&file, &[bytes_to_json(&bytes)]), self.append(&file, bytes).await)
    }

    async fn drop(&mut self, file: Resource<OpenFile>) -> wasmtime::Result<()> {
        self.0.resources.delete(file)?;
        self.0.open_files.close();
        Ok(())
    }
}

/// The methods for recordings and replays.
impl View<'_> {
    /// A path below a directory, as recordings hold it: the grant and the path from there.
    fn place(&self, directory: &Resource<OpenDirectory>, path: &str) -> Value {
        match self.0.resources.get(directory) {
            Ok(directory) if path.is_empty() => json!([directory.root.name, directory.path]),
            Ok(directory) => json!([directory.root.name, join(&directory.path, path)]),
            // What the guest does not hold ends the cell when it is used.
            Err(_) => Value::Null,
        }
    }

    /// As [`Self::place`], for an open file, with what else the call is given.
    fn file(&self, file: &Resource<OpenFile>, more: &[Value]) -> Value {
        let Ok(file) = self.0.resources.get(file) else { return Value::Null };
        let place = [json!(file.root.name), json!(file.path)];
        place.into_iter().chain(more.iter().cloned()).collect()
    }

    /// A file that the guest holds while it replays a recording.
    fn stand_in(
        &mut self,
        directory: &Resource<OpenDirectory>,
        path: &str,
        writable: bool,
    ) -> Answer<Resource<OpenFile>> {
        let directory = self.0.resources.get(directory)?;
        let (root, descriptor) = (Arc::clone(&directory.root), Arc::clone(&directory.descriptor));
        let path = join(&directory.path, path);
        self.keep_file(OpenFile { root, descriptor, writable, path, touch: None })
    }
}

/// The methods of the host.
impl View<'_> {
    fn granted_roots(&mut self) -> wasmtime::Result<Vec<wit::Root>> {
        self.0.budget.charge(Interface::Files, 0)?;
        let (policy, narrowing) = (&self.0.linked.policy, self.0.narrowing.as_ref());
        let roots: Vec<wit::Root> = self
            .0
            .linked
            .roots
            .names()
            .filter_map(|name| {
                let access = policy.file_access(name, narrowing).ok()?;
                Some(wit::Root { name: name.to_owned(), writable: access == Access::ReadWrite })
            })
            .collect();
        self.0.budget.give(roots.iter().map(|root| root.name.len()).sum())?;
        Ok(roots)
    }

    fn open_granted(&mut self, name: &str) -> Answer<Resource<OpenDirectory>> {
        self.0.budget.charge(Interface::Files, name.len())?;
        if let Err(denial) = self.0.check(Capability::Files, name) {
            return Ok(Err(FileError::Denied(denial.into())));
        }
        let Some(root) = self.0.linked.roots.get(name) else { return Ok(Err(FileError::NotFound)) };
        let access = match self.0.linked.policy.file_access(name, self.0.narrowing.as_ref()) {
            Ok(access) => access,
            Err(denial) => return Ok(Err(FileError::Denied(self.0.denials.note(denial).into()))),
        };
        let descriptor = Arc::clone(&root.descriptor);
        self.keep_directory(OpenDirectory { root, descriptor, path: String::new(), access })
    }

    async fn list_directory(&mut self, directory: &Resource<OpenDirectory>) -> Answer<Vec<wit::Entry>> {
        self.0.budget.charge(Interface::Files, 0)?;
        let directory = self.0.resources.get(directory)?;
        let (descriptor, root, path) =
            (Arc::clone(&directory.descriptor), Arc::clone(&directory.root), directory.path.clone());
        self.touch(&root, &path, FileAction::List);
        let listed = blocking(move || beneath::entries(&descriptor, MAX_ENTRIES)).await;
        let mut entries = match listed {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(Err(FileError::Quota(format!("the directory has more than {MAX_ENTRIES} entries")))),
            Err(error) => return Ok(Err(self.file_error(error, &root, &path))),
        };
        entries.retain(|entry| entry.kind == EntryKind::Directory || root.covers(&join(&path, &entry.name)));
        self.0.budget.give(entries.iter().map(|entry| entry.name.len() + 16).sum())?;
        Ok(Ok(entries))
    }

    async fn open_below(
        &mut self,
        directory: &Resource<OpenDirectory>,
        path: String,
    ) -> Answer<Resource<OpenDirectory>> {
        let parent = match self.locate(directory, &path)? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        let (descriptor, whole) = (Arc::clone(&parent.descriptor), join(&parent.path, &path));
        match blocking(move || beneath::open_directory(&descriptor, &path)).await {
            Ok(descriptor) => self.keep_directory(OpenDirectory {
                descriptor: Arc::new(descriptor),
                path: whole,
                root: parent.root,
                access: parent.access,
            }),
            Err(error) => Ok(Err(self.file_error(error, &parent.root, &whole))),
        }
    }

    async fn open_to_read(&mut self, directory: &Resource<OpenDirectory>, path: String) -> Answer<Resource<OpenFile>> {
        let parent = match self.locate_covered(directory, &path)? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = self.may_touch(Touch::Read, &parent, &path, None) {
            return Ok(Err(error));
        }
        let (directory, guarded, relative) = (Arc::clone(&parent.descriptor), Arc::clone(&parent.root), path.clone());
        let opened = blocking(move || {
            let descriptor = beneath::open_file(&directory, &relative)?;
            let refused = guarded.refuses(Touch::Read, &relative, beneath::real_path(&descriptor).as_deref());
            let refused = refused.or_else(|| guarded.refuses_hard_link(&rustix::fs::fstat(&descriptor).ok()?));
            Ok((descriptor, refused))
        });
        let whole = join(&parent.path, &path);
        match opened.await {
            Ok((descriptor, None)) => {
                let root = parent.root;
                let touch = self.touch(&root, &whole, FileAction::Open);
                self.keep_file(OpenFile { root, descriptor: Arc::new(descriptor), writable: false, path: whole, touch })
            }
            Ok((_, refused)) => Ok(Err(self.control_file(&parent, &path, refused))),
            Err(error) => Ok(Err(self.file_error(error, &parent.root, &whole))),
        }
    }

    /// Locates a file or directory that may be created, with its path from the root: a writable place, not the name of
    /// a control file, and an entry of the quota booked for it.
    async fn locate_new(&mut self, directory: &Resource<OpenDirectory>, path: &str) -> Answer<(Located, String)> {
        let parent = match self.locate_writable(directory, path)? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = self.may_change(&parent, path).await {
            return Ok(Err(error));
        }
        if !parent.root.book(Written::ENTRY).await {
            return Ok(Err(used_up(&parent.root)));
        }
        let whole = join(&parent.path, path);
        Ok(Ok((parent, whole)))
    }

    async fn open_to_write(&mut self, directory: &Resource<OpenDirectory>, path: String) -> Answer<Resource<OpenFile>> {
        let (Located { root, descriptor, .. }, whole) = match self.locate_new(directory, &path).await? {
            Ok(located) => located,
            Err(error) => return Ok(Err(error)),
        };
        // Noted before it happens: a cell that is dropped meanwhile has created it all the same.
        let touch = self.touch(&root, &whole, FileAction::Create);
        match blocking(move || beneath::create_file(&descriptor, &path)).await {
            Ok(descriptor) => {
                self.keep_file(OpenFile { root, descriptor: Arc::new(descriptor), writable: true, path: whole, touch })
            }
            Err(error) => Ok(Err(self.file_error(error, &root, &whole))),
        }
    }

    async fn make_directory(&mut self, directory: &Resource<OpenDirectory>, path: String) -> Answer<()> {
        let (Located { root, descriptor, .. }, whole) = match self.locate_new(directory, &path).await? {
            Ok(located) => located,
            Err(error) => return Ok(Err(error)),
        };
        self.touch(&root, &whole, FileAction::Create);
        let made = blocking(move || beneath::create_directory(&descriptor, &path)).await;
        Ok(made.map_err(|error| self.file_error(error, &root, &whole)))
    }

    async fn take_away(&mut self, directory: &Resource<OpenDirectory>, path: String) -> Answer<()> {
        let parent = match self.locate_writable(directory, &path)? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = self.may_change(&parent, &path).await {
            return Ok(Err(error));
        }
        let Located { root, descriptor, .. } = parent;
        let whole = join(&parent.path, &path);
        self.touch(&root, &whole, FileAction::Remove);
        let removed = blocking(move || beneath::remove(&descriptor, &path)).await;
        Ok(removed.map_err(|error| self.file_error(error, &root, &whole)))
    }

    async fn look_at(&mut self, directory: &Resource<OpenDirectory>, path: String) -> Answer<wit::Entry> {
        let parent = match self.locate(directory, &path)? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        let (descriptor, relative) = (Arc::clone(&parent.descriptor), path.clone());
        let whole = join(&parent.path, &path);
        let entry = match blocking(move || beneath::metadata(&descriptor, &relative)).await {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(self.file_error(error, &parent.root, &whole))),
        };
        self.touch(&parent.root, &whole, FileAction::Stat);
        if entry.kind != EntryKind::Directory
            && let Err(error) = self.covered(&parent, &path)
        {
            return Ok(Err(error));
        }
        self.0.budget.give(entry.name.len() + 16)?;
        Ok(Ok(entry))
    }

    async fn measure(&mut self, file: &Resource<OpenFile>) -> Answer<u64> {
        self.0.budget.charge(Interface::Files, 0)?;
        let file = self.0.resources.get(file)?;
        let (root, path, descriptor) = (Arc::clone(&file.root), file.path.clone(), Arc::clone(&file.descriptor));
        let size = blocking(move || beneath::size(&descriptor)).await;
        Ok(size.map_err(|error| self.file_error(error, &root, &path)))
    }

    async fn read_at(&mut self, file: &Resource<OpenFile>, offset: u64, length: u32) -> Answer<Bytes> {
        self.0.budget.charge(Interface::Files, 0)?;
        let file = self.0.resources.get(file)?;
        if file.writable {
            return Ok(Err(FileError::Failed("the file is open for writing; open it again to read it".to_owned())));
        }
        let (root, path, touch) = (Arc::clone(&file.root), file.path.clone(), file.touch);
        let descriptor = Arc::clone(&file.descriptor);
        let limits = &self.0.limits;
        if u64::from(length) > limits.result_bytes {
            return Ok(Err(FileError::Quota(format!(
                "one read returns at most {} bytes (limit `result-bytes`)",
                limits.result_bytes
            ))));
        }
        if let Err(error) = self.file_bytes_left(u64::from(length)) {
            return Ok(Err(error));
        }
        let length = length as usize;
        match blocking(move || beneath::read_at(&descriptor, offset, length)).await {
            Ok(bytes) => {
                let length = bytes.len() as u64;
                self.0.file_bytes.read += length;
                self.0.touched().note(|touched| touched.moved(touch, length, 0));
                self.0.budget.give(bytes.len())?;
                Ok(Ok(Bytes(bytes)))
            }
            Err(error) => Ok(Err(self.file_error(error, &root, &path))),
        }
    }

    async fn append(&mut self, file: &Resource<OpenFile>, bytes: Vec<u8>) -> Answer<()> {
        self.0.budget.charge(Interface::Files, bytes.len())?;
        let file = self.0.resources.get(file)?;
        if !file.writable {
            return Ok(Err(FileError::Failed("the file is open for reading; `create` opens for writing".to_owned())));
        }
        let (root, path, touch) = (Arc::clone(&file.root), file.path.clone(), file.touch);
        let descriptor = Arc::clone(&file.descriptor);
        let length = bytes.len() as u64;
        if let Err(error) = self.file_bytes_left(length) {
            return Ok(Err(error));
        }
        if !root.book(Written::bytes(length)).await {
            return Ok(Err(used_up(&root)));
        }
        // Booked before it happens: a cell that is dropped meanwhile has written all the same.
        self.0.file_bytes.written += length;
        self.0.touched().note(|touched| touched.moved(touch, 0, length));
        let written = blocking(move || beneath::append(&descriptor, &bytes)).await;
        Ok(written.map_err(|error| self.file_error(error, &root, &path)))
    }
}

/// The directory that a path starts from, without holding on to the cell's state.
struct Located {
    root: Arc<Root>,
    descriptor: Arc<OwnedFd>,
    path: String,
    access: Access,
}

impl View<'_> {
    /// Charges the call, checks the path's shape, finds the directory.
    fn locate(&mut self, directory: &Resource<OpenDirectory>, path: &str) -> Answer<Located> {
        self.0.budget.charge(Interface::Files, path.len())?;
        let directory = self.0.resources.get(directory)?;
        match beneath::check(path) {
            Ok(()) => {}
            Err(PathError::Malformed(message)) => return Ok(Err(FileError::Failed(message.to_owned()))),
            Err(PathError::Escapes(rule)) => {
                let denial = Policy::escape(&directory.root.name, &join(&directory.path, path), rule);
                return Ok(Err(FileError::Denied(self.0.denials.note(denial).into())));
            }
        }
        let OpenDirectory { root, descriptor, path, access } = directory;
        Ok(Ok(Located {
            root: Arc::clone(root),
            descriptor: Arc::clone(descriptor),
            path: path.clone(),
            access: *access,
        }))
    }

    /// As [`Self::locate`], for a path that the grant's patterns cover.
    fn locate_covered(&mut self, directory: &Resource<OpenDirectory>, path: &str) -> Answer<Located> {
        let located = self.locate(directory, path)?;
        Ok(located.and_then(|located| self.covered(&located, path).map(|()| located)))
    }

    /// As [`Self::locate_covered`], for a root that may be written.
    fn locate_writable(&mut self, directory: &Resource<OpenDirectory>, path: &str) -> Answer<Located> {
        let located = self.locate_covered(directory, path)?;
        Ok(located.and_then(|located| {
            if located.access == Access::ReadWrite {
                return Ok(located);
            }
            let denial = self.0.linked.policy.read_only(&located.root.name);
            Err(FileError::Denied(self.0.denials.note(denial).into()))
        }))
    }

    fn covered(&mut self, located: &Located, path: &str) -> Result<(), FileError> {
        let whole = join(&located.path, path);
        if located.root.covers(&whole) {
            return Ok(());
        }
        let denial = self.0.linked.policy.outside_patterns(&located.root.name, &whole);
        Err(FileError::Denied(self.0.denials.note(denial).into()))
    }

    fn touch(&mut self, root: &Root, path: &str, action: FileAction) -> Option<usize> {
        self.0.touched().note(|touched| touched.file(&root.name, path, action))
    }

    /// A system error without any host path. What would have left the directory is a refusal, whatever the guest makes
    /// of it.
    fn file_error(&mut self, error: Errno, root: &Root, path: &str) -> FileError {
        let rule = match error {
            Errno::LOOP => "symbolic links are not followed",
            Errno::MLINK => "the file has a second name, which may be outside of the directory",
            Errno::XDEV => "the path leaves the directory",
            other => return system_error(other),
        };
        let denial = Policy::escape(&root.name, path, rule);
        FileError::Denied(self.0.denials.note(denial).into())
    }

    /// Returns `true` if the grant extends to the file, by its path and by where it really is.
    fn may_touch(&mut self, touch: Touch, located: &Located, path: &str, real: Option<&Path>) -> Result<(), FileError> {
        let whole = join(&located.path, path);
        match located.root.refuses(touch, &whole, real) {
            None => Ok(()),
            refused => Err(self.control_file(located, path, refused)),
        }
    }

    /// As [`Self::may_touch`], before something is created, changed or removed: where the directory that holds it is
    /// now.
    async fn may_change(&mut self, located: &Located, path: &str) -> Result<(), FileError> {
        let (descriptor, relative) = (Arc::clone(&located.descriptor), path.to_owned());
        let root = Arc::clone(&located.root);
        let looked = blocking(move || {
            let real = beneath::real_target(&descriptor, &relative);
            let part = real.as_deref().and_then(|real| root.refuses_part_of_repository(real));
            Ok((real, part))
        });
        let (real, part) = looked.await.map_err(system_error)?;
        self.may_touch(Touch::Write, located, path, real.as_deref())?;
        match part {
            None => Ok(()),
            refused => Err(self.control_file(located, path, refused)),
        }
    }

    fn control_file(&mut self, located: &Located, path: &str, rule: Option<String>) -> FileError {
        let whole = join(&located.path, path);
        let denial = self.0.linked.policy.control_file(&located.root.name, &whole, rule.unwrap_or_default());
        FileError::Denied(self.0.denials.note(denial).into())
    }

    fn file_bytes_left(&self, wanted: u64) -> Result<(), FileError> {
        let used = self.0.file_bytes.read + self.0.file_bytes.written;
        if used.saturating_add(wanted) <= self.0.limits.file_bytes {
            return Ok(());
        }
        Err(FileError::Quota(format!(
            "a cell reads and writes at most {} bytes of files (limit `file-bytes`)",
            self.0.limits.file_bytes
        )))
    }

    fn keep_directory(&mut self, directory: OpenDirectory) -> Answer<Resource<OpenDirectory>> {
        if let Err(error) = self.count_open() {
            return Ok(Err(error));
        }
        Ok(Ok(self.0.resources.push(directory)?))
    }

    fn keep_file(&mut self, file: OpenFile) -> Answer<Resource<OpenFile>> {
        if let Err(error) = self.count_open() {
            return Ok(Err(error));
        }
        Ok(Ok(self.0.resources.push(file)?))
    }

    fn count_open(&mut self) -> Result<(), FileError> {
        self.0.open_files.open(self.0.limits.open_files).map_err(FileError::Quota)
    }
}

fn used_up(root: &Root) -> FileError {
    FileError::Quota(format!("the write quota of grant `{}` is exhausted", root.name))
}

fn join(directory: &str, path: &str) -> String {
    if directory.is_empty() { path.to_owned() } else { format!("{directory}/{path}") }
}

/// Runs system calls where they may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Errno> + Send + 'static) -> Result<T, Errno> {
    // A task is lost only when the runtime ends.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Errno::CANCELED))
}

fn system_error(error: Errno) -> FileError {
    match error {
        Errno::NOENT => FileError::NotFound,
        Errno::EXIST | Errno::NOTEMPTY => FileError::AlreadyExists,
        Errno::ISDIR => FileError::NotAFile,
        Errno::NOTDIR => FileError::NotADirectory,
        Errno::NXIO | Errno::NODEV => FileError::Failed("neither a file nor a directory".to_owned()),
        other => FileError::Failed(other.to_string()),
    }
}
