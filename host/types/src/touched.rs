//! The resources that a call touched outside of itself: requests, files and stores, for its receipt.
//!
//! Lists are bounded; what does not fit is counted. Query strings, headers and bodies never get here: they may hold
//! secrets.

use crate::text::one_line;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Requests, files and keys of stores that are listed one by one, each.
const LISTED: usize = 64;

/// Longest path that is kept, in bytes.
const PATH: usize = 300;

/// The most that is kept of a call's arguments, and of its result, in bytes.
const SHOWN: usize = 1_000;

/// Longest warning that is kept, in bytes.
const WARNING: usize = 600;

/// One HTTP request. A redirect that was followed is a request of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HttpExchange {
    /// Such as `GET`.
    pub method: String,
    /// Scheme, host and port.
    pub origin: String,
    /// Without the query.
    pub path: String,
    /// The status of the response; nothing where none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the request's body.
    pub sent: u64,
    /// Bytes of the response's body that were read.
    pub received: u64,
}

/// One file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileTouch {
    /// The root's name and the path below it: `repo/src/lib.rs`.
    pub path: String,
    /// The actions on it, in the order in which each was first done: `open`, `list`, `create`, `remove`, `stat`.
    pub actions: Vec<FileAction>,
    /// Bytes read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read: u64,
    /// Bytes written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub written: u64,
}

/// An action of a cell on a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileAction {
    /// Opened for reading.
    Open,
    /// Its entries were listed.
    List,
    /// Created, or emptied and opened for writing.
    Create,
    /// Removed.
    Remove,
    /// Its kind and size were asked for.
    Stat,
}

/// One key of a store, or the keys of a store that were listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoreTouch {
    /// The store's name and the key: `counts/visits`; the name alone where its keys were listed.
    pub key: String,
    /// The actions, in the order in which each was first done.
    pub actions: Vec<StoreAction>,
    /// The version that was last seen or written; absent where there was no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// `true` if an answer was the recorded one of an earlier attempt of the same call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// An action of a cell on a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StoreAction {
    /// A value was read.
    Get,
    /// A value was written.
    Set,
    /// A value was to be written at a version.
    CompareAndSet,
    /// Keys were listed.
    List,
    /// A key was removed.
    Delete,
}

/// One call that a plugin made: of a tool of the project, or of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InnerCall {
    /// The name that the plugin called.
    pub tool: String,
    /// Bytes of the arguments as JSON.
    pub sent: u64,
    /// Bytes of the result as JSON.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub received: u64,
    /// The time that it took; nothing where it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The reason of its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The arguments as JSON, cut to a readable length; of calls of programs that models write, whose own arguments
    /// are recorded as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The result as JSON, or the message of the failure, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// The resources that a call touched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Touched {
    /// The first requests, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpExchange>,
    /// Requests beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_http: u64,
    /// The first files and directories, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileTouch>,
    /// Uses of files and directories beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: u64,
    /// The first keys of stores, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreTouch>,
    /// Uses of keys beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_stores: u64,
    /// The first calls of tools of the project and of operations, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<InnerCall>,
    /// Calls beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_calls: u64,
    /// Host calls of the cells that those calls ran in.
    #[serde(skip_serializing_if = "is_zero")]
    pub inner_host_calls: u64,
    /// Oddities in the answers of others that did not fail the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Touched {
    /// Returns `true` if nothing was touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes something odd that did not fail the call; what is beyond the list is left out.
    pub fn warn(&mut self, warning: &str) {
        let warning = one_line(warning, WARNING);
        if self.warnings.len() < LISTED && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Notes that something is done with a file. The number finds it again; `None` when the list is full.
    pub fn file(&mut self, root: &str, path: &str, action: FileAction) -> Option<usize> {
        let path = one_line(&if path.is_empty() { root.to_owned() } else { format!("{root}/{path}") }, PATH);
        if let Some(at) = self.files.iter().position(|file| file.path == path) {
            if let Some(file) = self.files.get_mut(at).filter(|file| !file.actions.contains(&action)) {
                file.actions.push(action);
            }
            return Some(at);
        }
        if self.files.len() == LISTED {
            self.more_files += 1;
            return None;
        }
        self.files.push(FileTouch { path, actions: vec![action], ..FileTouch::default() });
        Some(self.files.len() - 1)
    }

    /// Books bytes of a file that [`Self::file`] noted.
    pub fn moved(&mut self, file: Option<usize>, read: u64, written: u64) {
        if let Some(file) = file.and_then(|at| self.files.get_mut(at)) {
            file.read += read;
            file.written += written;
        }
    }

    /// Notes that something is done with a key of a store, or with the store. The number finds it again; `None` when
    /// the list is full.
    pub fn store(&mut self, store: &str, key: Option<&str>, action: StoreAction) -> Option<usize> {
        let key = one_line(&key.map_or_else(|| store.to_owned(), |key| format!("{store}/{key}")), PATH);
        if let Some(at) = self.stores.iter().position(|touch| touch.key == key) {
            if let Some(touch) = self.stores.get_mut(at).filter(|touch| !touch.actions.contains(&action)) {
                touch.actions.push(action);
            }
            return Some(at);
        }
        if self.stores.len() == LISTED {
            self.more_stores += 1;
            return None;
        }
        self.stores.push(StoreTouch { key, actions: vec![action], ..StoreTouch::default() });
        Some(self.stores.len() - 1)
    }

    /// Notes the version of a key that [`Self::store`] noted, and whether the answer was a recorded one.
    pub fn version(&mut self, touch: Option<usize>, version: Option<u64>, recorded: bool) {
        if let Some(touch) = touch.and_then(|at| self.stores.get_mut(at)) {
            (touch.version, touch.recorded) = (version, touch.recorded || recorded);
        }
    }

    /// Notes a request that is about to be sent. The number finds it again; `None` when the list is full.
    pub fn request(&mut self, method: &str, origin: &str, path: &str, sent: u64) -> Option<usize> {
        if self.http.len() == LISTED {
            self.more_http += 1;
            return None;
        }
        self.http.push(HttpExchange {
            method: method.to_owned(),
            origin: one_line(origin, PATH),
            path: one_line(path, PATH),
            status: None,
            sent,
            received: 0,
        });
        Some(self.http.len() - 1)
    }

    /// Notes a call that is about to be made. The number finds it again; `None` when the list is full.
    pub fn call(&mut self, tool: &str, sent: u64) -> Option<usize> {
        if self.calls.len() == LISTED {
            self.more_calls += 1;
            return None;
        }
        self.calls.push(InnerCall { tool: one_line(tool, PATH), sent, ..InnerCall::default() });
        Some(self.calls.len() - 1)
    }

    /// Notes the end of a call that [`Self::call`] noted: the bytes of its result, or the reason of its failure.
    pub fn called(&mut self, call: Option<usize>, duration_us: u64, result: Result<u64, &str>) {
        if let Some(call) = call.and_then(|at| self.calls.get_mut(at)) {
            call.duration_us = Some(duration_us);
            match result {
                Ok(received) => call.received = received,
                Err(reason) => call.failed = Some(one_line(reason, PATH)),
            }
        }
    }

    /// Notes the arguments of a call that [`Self::call`] noted, as JSON.
    pub fn call_arguments(&mut self, call: Option<usize>, arguments: &str) {
        if let Some(call) = call.and_then(|at| self.calls.get_mut(at)) {
            call.arguments = Some(one_line(arguments, SHOWN));
        }
    }

    /// Notes the result of a call that [`Self::call`] noted, as JSON, or the message of its failure.
    pub fn call_result(&mut self, call: Option<usize>, result: &str) {
        if let Some(call) = call.and_then(|at| self.calls.get_mut(at)) {
            call.result = Some(one_line(result, SHOWN));
        }
    }

    /// Adds what a call of this one touched; lists stay bounded.
    pub fn absorb(&mut self, inner: Self) {
        let room = |listed: usize| LISTED.saturating_sub(listed);
        let beyond = |listed: usize, added: usize| added.saturating_sub(room(listed)) as u64;
        self.more_http += inner.more_http + beyond(self.http.len(), inner.http.len());
        self.http.extend(inner.http.into_iter().take(room(self.http.len())));
        self.more_files += inner.more_files + beyond(self.files.len(), inner.files.len());
        self.files.extend(inner.files.into_iter().take(room(self.files.len())));
        self.more_stores += inner.more_stores + beyond(self.stores.len(), inner.stores.len());
        self.stores.extend(inner.stores.into_iter().take(room(self.stores.len())));
        self.more_calls += inner.more_calls + beyond(self.calls.len(), inner.calls.len());
        self.calls.extend(inner.calls.into_iter().take(room(self.calls.len())));
        self.inner_host_calls += inner.inner_host_calls;
        inner.warnings.iter().for_each(|warning| self.warn(warning));
    }

    /// Notes the response to a request that [`Self::request`] noted.
    pub fn response(&mut self, request: Option<usize>, status: u16, received: u64) {
        if let Some(exchange) = request.and_then(|at| self.http.get_mut(at)) {
            (exchange.status, exchange.received) = (Some(status), received);
        }
    }
}

/// A log in which a call that may be dropped at any time notes the resources that it touches. Clones note in the same
/// place.
#[derive(Debug, Default)]
pub struct TouchLog(OnceLock<Arc<Mutex<Touched>>>);

/// Most calls touch nothing, so the place is made when it is first shared or noted in.
impl Clone for TouchLog {
    fn clone(&self) -> Self {
        Self(OnceLock::from(Arc::clone(self.0.get_or_init(Arc::default))))
    }
}

impl TouchLog {
    /// Notes something.
    pub fn note<T>(&self, note: impl FnOnce(&mut Touched) -> T) -> T {
        note(&mut self.0.get_or_init(Arc::default).lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the notes so far.
    #[must_use]
    pub fn so_far(&self) -> Touched {
        self.note(|touched| touched.clone())
    }

    /// Returns the notes so far; the log begins anew.
    #[must_use]
    pub fn take(&self) -> Touched {
        self.note(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileAction, LISTED, TouchLog, Touched};

    #[test]
    fn a_file_is_listed_once_with_all_that_was_done() {
        let mut touched = Touched::default();
        let file = touched.file("repo", "a.txt", FileAction::Open);
        touched.moved(file, 10, 0);
        let again = touched.file("repo", "a.txt", FileAction::Create);
        touched.moved(again, 0, 5);
        touched.file("repo", "", FileAction::List);
        let json = serde_json::to_value(&touched).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"files": [
                {"path": "repo/a.txt", "actions": ["open", "create"], "read": 10, "written": 5},
                {"path": "repo", "actions": ["list"]},
            ]})
        );
    }

    #[test]
    fn a_call_is_listed_with_its_end_and_takes_in_what_it_touched() {
        let mut touched = Touched::default();
        let call = touched.call("repo/find", 12);
        let mut inner = Touched::default();
        inner.file("repo", "a.txt", FileAction::Open);
        touched.absorb(inner);
        touched.called(call, 7, Ok(30));
        let failed = touched.call("repo/find", 2);
        touched.called(failed, 3, Err("invalid-arguments"));
        let json = serde_json::to_value(&touched).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "files": [{"path": "repo/a.txt", "actions": ["open"]}],
                "calls": [
                    {"tool": "repo/find", "sent": 12, "received": 30, "duration-us": 7},
                    {"tool": "repo/find", "sent": 2, "duration-us": 3, "failed": "invalid-arguments"},
                ],
            })
        );
        let mut many = Touched::default();
        for _ in 0..LISTED + 2 {
            many.call("a/b", 0);
        }
        touched.absorb(many);
        assert_eq!((touched.calls.len(), touched.more_calls), (LISTED, 4));
    }

    #[test]
    fn lists_are_bounded_and_the_rest_is_counted() {
        let log = TouchLog::default();
        for at in 0..LISTED + 3 {
            log.note(|touched| {
                let file = touched.file("r", &at.to_string(), FileAction::Open);
                touched.moved(file, 1, 0);
                let request = touched.request("GET", "https://a.example", "/", 0);
                touched.response(request, 200, 7);
            });
        }
        let touched = log.take();
        assert_eq!((touched.files.len(), touched.more_files), (LISTED, 3));
        assert_eq!((touched.http.len(), touched.more_http), (LISTED, 3));
        assert!(touched.http.iter().all(|exchange| exchange.status == Some(200) && exchange.received == 7));
        assert!(log.take().is_empty());
    }
}
