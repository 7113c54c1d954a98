//! The functions of `wit/`, answered by the installed test host.

use super::{INSTALLED, Installed, denial};
use crate::Denial;

/// Runs over the thread's host.
#[expect(clippy::expect_used, reason = "a mistake in a test must fail it")]
pub(crate) fn with<T>(use_it: impl FnOnce(&mut Installed) -> T) -> T {
    INSTALLED.with_borrow_mut(|installed| {
        use_it(installed.as_mut().expect("a host call in a native build: install an opcell_sdk::testing::Host first"))
    })
}

#[expect(clippy::panic, reason = "a mistake in a test must fail it")]
fn refuse(installed: &Installed, capability: String) -> Denial {
    if installed.host.strict {
        panic!("unexpected host call: {capability}");
    }
    denial(capability)
}

pub mod tools {
    use super::{refuse, with};
    use crate::bindings::imports::opcell::plugin0_1_0::tools::{ToolDescription, ToolError};
    use serde_json::Value;

    pub fn list() -> Vec<ToolDescription> {
        with(|installed| {
            let description = |name: &String| ToolDescription {
                name: name.clone(),
                summary: String::new(),
                arguments_schema: "true".to_owned(),
            };
            installed.host.tools.keys().map(description).collect()
        })
    }

    pub fn call(name: &str, arguments: &str) -> Result<String, ToolError> {
        let arguments: Value = serde_json::from_str(arguments)
            .map_err(|error| ToolError::Failed(crate::Failure::new("invalid-arguments", error.to_string()).into()))?;
        // Taken out while it answers, so that it may use the host itself.
        let tool = with(|installed| {
            installed.recorded.tool_calls.push((name.to_owned(), arguments.clone()));
            installed.host.tools.remove(name).ok_or_else(|| refuse(installed, format!("tool {name}")))
        });
        let mut tool = tool.map_err(ToolError::Denied)?;
        let answer = tool(&arguments);
        with(|installed| installed.host.tools.insert(name.to_owned(), tool));
        match answer {
            Ok(value) => Ok(value.to_string()),
            Err(failure) => Err(ToolError::Failed(failure.into())),
        }
    }
}

pub mod calls {
    use super::{tools, with};
    use crate::Failure;
    use crate::bindings::imports::opcell::plugin0_1_0::tools::ToolError;
    use crate::bindings::imports::opcell::plugin0_1_0::types::Failure as RawFailure;
    use crate::bindings::imports::opcell::plugin0_3_0::calls::Ended;

    /// Makes the call: it has ended when this returns.
    pub fn start(name: &str, arguments: &str) -> Result<u32, ToolError> {
        let answer = tools::call(name, arguments);
        if let Err(ToolError::Denied(denial)) = answer {
            return Err(ToolError::Denied(denial));
        }
        Ok(with(|installed| {
            let call = u32::try_from(installed.started.len()).unwrap_or(u32::MAX);
            installed.started.push(Some(answer));
            call
        }))
    }

    pub fn wait_any(calls: &[u32]) -> Result<Ended, RawFailure> {
        let mut calls = calls.to_vec();
        calls.sort_unstable();
        let taken = with(|installed| {
            let take = |call: &u32| installed.started.get_mut(*call as usize)?.take().map(|answer| (*call, answer));
            calls.iter().find_map(take)
        });
        let unknown = || Failure::new("unknown-call", "none of the calls is in progress").into();
        taken.map(|(call, answer)| Ended { call, answer }).ok_or_else(unknown)
    }
}

pub mod skills {
    use super::{refuse, with};
    use crate::Failure;
    use crate::bindings::imports::opcell::plugin0_1_0::skills::{SkillDescription, SkillError};

    pub fn list() -> Vec<SkillDescription> {
        with(|installed| {
            let skills = installed.host.skills.iter();
            skills
                .map(|(name, skill)| SkillDescription { name: name.clone(), description: skill.description.clone() })
                .collect()
        })
    }

    pub fn read(name: &str) -> Result<String, SkillError> {
        with(|installed| match installed.host.skills.get(name) {
            Some(skill) => Ok(skill.body.clone()),
            None => Err(SkillError::Denied(refuse(installed, format!("skill {name}")))),
        })
    }

    pub fn read_resource(name: &str, path: &str) -> Result<Vec<u8>, SkillError> {
        with(|installed| match installed.host.skills.get(name) {
            Some(skill) => skill.resources.get(path).cloned().ok_or_else(|| {
                SkillError::Failed(Failure::new("not-found", format!("{name} has no resource {path}")).into())
            }),
            None => Err(SkillError::Denied(refuse(installed, format!("skill {name}")))),
        })
    }
}

pub mod store {
    use super::{refuse, with};
    use crate::bindings::imports::opcell::plugin0_2_0::store::{Entry, Page, StoreError, Swap};
    use crate::testing::Store;

    fn in_store<T>(name: &str, use_it: impl FnOnce(&mut Store) -> T) -> Result<T, StoreError> {
        with(|installed| match installed.host.stores.get_mut(name) {
            Some(store) => Ok(use_it(store)),
            None => Err(StoreError::Denied(refuse(installed, format!("store {name}")))),
        })
    }

    fn entry(store: &Store, key: &str) -> Option<Entry> {
        store.entries.get(key).map(|(version, value)| Entry { value: value.clone(), version: *version })
    }

    fn write(store: &mut Store, key: &str, value: &[u8]) -> u64 {
        store.version += 1;
        store.entries.insert(key.to_owned(), (store.version, value.to_owned()));
        store.version
    }

    pub fn get(store: &str, key: &str) -> Result<Option<Entry>, StoreError> {
        in_store(store, |store| entry(store, key))
    }

    pub fn set(store: &str, key: &str, value: &[u8]) -> Result<u64, StoreError> {
        in_store(store, |store| write(store, key, value))
    }

    pub fn compare_and_set(store: &str, key: &str, expected: Option<u64>, value: &[u8]) -> Result<Swap, StoreError> {
        in_store(store, |store| {
            let current = entry(store, key);
            match current.as_ref().map(|entry| entry.version) == expected {
                true => Swap::Stored(write(store, key, value)),
                false => Swap::Conflict(current),
            }
        })
    }

    pub fn list(store: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Page, StoreError> {
        in_store(store, |store| {
            let matching = |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
            let mut keys: Vec<String> = store.entries.keys().filter(matching).cloned().collect();
            let limit = limit.min(1000) as usize;
            let more = keys.len() > limit;
            keys.truncate(limit);
            Page { keys, more }
        })
    }

    pub fn delete(store: &str, key: &str) -> Result<bool, StoreError> {
        in_store(store, |store| {
            let was_there = store.entries.remove(key).is_some();
            store.version += u64::from(was_there);
            was_there
        })
    }
}

pub mod log {
    use super::with;
    use crate::bindings::imports::opcell::plugin0_1_0::log::Level;

    pub fn log(level: Level, message: &str) {
        with(|installed| installed.recorded.messages.push((level, message.to_owned())));
    }

    pub fn progress(done: u64, total: u64, message: &str) {
        with(|installed| installed.recorded.progress.push((done, total, message.to_owned())));
    }

    pub fn panicked(message: &str) {
        log(Level::Error, message);
    }
}

pub mod files {
    use super::{denial, refuse, with};
    use crate::bindings::imports::opcell::plugin0_1_0::files::{Entry, EntryKind, FileError, Root};
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::rc::Rc;

    pub fn roots() -> Vec<Root> {
        with(|installed| {
            let roots = installed.host.roots.iter();
            roots.map(|(name, root)| Root { name: name.clone(), writable: root.writable }).collect()
        })
    }

    pub fn open_root(name: &str) -> Result<Directory, FileError> {
        with(|installed| match installed.host.roots.get(name) {
            Some(root) => Ok(Directory {
                tree: Tree {
                    name: name.to_owned(),
                    writable: root.writable,
                    files: Rc::clone(&root.files),
                    directories: Rc::clone(&root.directories),
                },
                path: String::new(),
            }),
            None => Err(FileError::Denied(refuse(installed, format!("files {name}")))),
        })
    }

    #[derive(Clone)]
    struct Tree {
        name: String,
        writable: bool,
        files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
        directories: Rc<RefCell<BTreeSet<String>>>,
    }

    impl Tree {
        fn kind(&self, path: &str) -> Option<EntryKind> {
            if self.files.borrow().contains_key(path) {
                return Some(EntryKind::File);
            }
            let inside = format!("{path}/");
            let exists = path.is_empty()
                || self.directories.borrow().contains(path)
                || self.paths().iter().any(|other| other.starts_with(&inside));
            exists.then_some(EntryKind::Directory)
        }

        fn paths(&self) -> Vec<String> {
            self.files.borrow().keys().chain(self.directories.borrow().iter()).cloned().collect()
        }

        fn size(&self, path: &str) -> u64 {
            self.files.borrow().get(path).map_or(0, |bytes| bytes.len() as u64)
        }
    }

    pub struct Directory {
        tree: Tree,
        path: String,
    }

    impl Directory {
        /// The path below the root; the host refuses what would leave it.
        fn resolve(&self, path: &str) -> Result<String, FileError> {
            let mut parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
            let depth = parts.len();
            if path.starts_with('/') {
                return Err(self.refuse(path));
            }
            for part in path.split('/') {
                match part {
                    "" | "." => {}
                    ".." if parts.len() > depth => _ = parts.pop(),
                    ".." => return Err(self.refuse(path)),
                    part => parts.push(part),
                }
            }
            Ok(parts.join("/"))
        }

        fn refuse(&self, path: &str) -> FileError {
            FileError::Denied(denial(format!("files {}: {path}", self.tree.name)))
        }

        fn existing(&self, path: &str) -> Result<(String, EntryKind), FileError> {
            let path = self.resolve(path)?;
            let kind = self.tree.kind(&path).ok_or(FileError::NotFound)?;
            Ok((path, kind))
        }

        fn writable(&self, path: &str) -> Result<String, FileError> {
            if self.tree.writable { self.resolve(path) } else { Err(self.refuse(path)) }
        }

        pub fn entries(&self) -> Result<Vec<Entry>, FileError> {
            let prefix = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
            let paths = self.tree.paths();
            let names: BTreeSet<&str> = paths
                .iter()
                .filter_map(|path| path.strip_prefix(&prefix))
                .filter_map(|rest| rest.split('/').next())
                .collect();
            names.into_iter().map(|name| self.metadata(name)).collect()
        }

        pub fn metadata(&self, path: &str) -> Result<Entry, FileError> {
            let (path, kind) = self.existing(path)?;
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(Entry { name, kind, size: self.tree.size(&path) })
        }

        pub fn open_directory(&self, path: &str) -> Result<Self, FileError> {
            match self.existing(path)? {
                (path, EntryKind::Directory) => Ok(Self { tree: self.tree.clone(), path }),
                _ => Err(FileError::NotADirectory),
            }
        }

        pub fn open(&self, path: &str) -> Result<File, FileError> {
            match self.existing(path)? {
                (path, EntryKind::File) => Ok(File { tree: self.tree.clone(), path }),
                _ => Err(FileError::NotAFile),
            }
        }

        pub fn create(&self, path: &str) -> Result<File, FileError> {
            let path = self.writable(path)?;
            if self.tree.kind(&path) == Some(EntryKind::Directory) {
                return Err(FileError::NotAFile);
            }
            self.tree.files.borrow_mut().insert(path.clone(), Vec::new());
            Ok(File { tree: self.tree.clone(), path })
        }

        pub fn create_directory(&self, path: &str) -> Result<(), FileError> {
            let path = self.writable(path)?;
            if self.tree.kind(&path).is_some() {
                return Err(FileError::AlreadyExists);
            }
            self.tree.directories.borrow_mut().insert(path);
            Ok(())
        }

        pub fn remove(&self, path: &str) -> Result<(), FileError> {
            let path = self.writable(path)?;
            let removed = self.tree.files.borrow_mut().remove(&path).is_some();
            match self.tree.kind(&path) {
                _ if removed => Ok(()),
                None => Err(FileError::NotFound),
                Some(_) if self.tree.paths().iter().any(|other| other.starts_with(&format!("{path}/"))) => {
                    Err(FileError::Failed("the directory is not empty".to_owned()))
                }
                Some(_) => {
                    self.tree.directories.borrow_mut().remove(&path);
                    Ok(())
                }
            }
        }
    }

    pub struct File {
        tree: Tree,
        path: String,
    }

    impl File {
        pub fn size(&self) -> Result<u64, FileError> {
            Ok(self.tree.size(&self.path))
        }

        pub fn read(&self, offset: u64, length: u32) -> Result<Vec<u8>, FileError> {
            let files = self.tree.files.borrow();
            let bytes = files.get(&self.path).ok_or(FileError::NotFound)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let end = start.saturating_add(length as usize).min(bytes.len());
            Ok(bytes.get(start..end).unwrap_or_default().to_vec())
        }

        pub fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
            let mut files = self.tree.files.borrow_mut();
            files.get_mut(&self.path).ok_or(FileError::NotFound)?.extend_from_slice(bytes);
            Ok(())
        }
    }
}
