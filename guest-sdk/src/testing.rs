//! The host's part, played in native unit tests.
//!
//! ```
//! use opcell_sdk::testing::Host;
//! use opcell_sdk::{files, tools};
//! use serde_json::{Value, json};
//!
//! let host = Host::new()
//!     .tool("clock.now", |_arguments| Ok(json!({ "seconds": 5 })))
//!     .files("workspace", [("docs/README.md", "# Hello")])
//!     .install();
//!
//! let now: Value = tools::call("clock.now", &json!({})).unwrap();
//! assert_eq!(now["seconds"], 5);
//! assert_eq!(files::open_root("workspace").unwrap().read_to_string("docs/README.md").unwrap(), "# Hello");
//! assert_eq!(host.tool_calls(), [("clock.now".to_owned(), json!({}))]);
//! ```
//!
//! What was not given is denied, as the real host denies what was not granted; [`Host::strict`] makes it a failed test
//! instead. Without an installed host every call is a failed test. A host serves the thread that installed it, until it
//! is dropped.

use crate::bindings::imports::opcell::plugin0_1_0::log::Level;
use crate::{Context, Denial, Failure, Judge, Operation, Verdict};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) mod double;

type Tool = Box<dyn FnMut(&Value) -> Result<Value, Failure>>;

/// A host that answers what a test asks it to.
#[derive(Default)]
pub struct Host {
    strict: bool,
    tools: BTreeMap<String, Tool>,
    skills: BTreeMap<String, Skill>,
    roots: BTreeMap<String, Root>,
    stores: BTreeMap<String, Store>,
}

#[derive(Default)]
struct Skill {
    description: String,
    body: String,
    resources: BTreeMap<String, Vec<u8>>,
}

#[derive(Default)]
struct Root {
    writable: bool,
    /// Whole files by their path; a directory is what a path runs through.
    files: Rc<RefCell<BTreeMap<String, Vec<u8>>>>,
    directories: Rc<RefCell<std::collections::BTreeSet<String>>>,
}

#[derive(Default)]
struct Store {
    version: u64,
    /// Version and value by key.
    entries: BTreeMap<String, (u64, Vec<u8>)>,
}

#[derive(Default)]
struct Recorded {
    tool_calls: Vec<(String, Value)>,
    messages: Vec<(Level, String)>,
    progress: Vec<(u64, u64, String)>,
}

pub(crate) struct Installed {
    host: Host,
    recorded: Recorded,
    /// The ends of calls that were started, until they are waited for.
    started: Vec<Option<Result<String, crate::bindings::imports::opcell::plugin0_1_0::tools::ToolError>>>,
}

thread_local! {
    static INSTALLED: RefCell<Option<Installed>> = const { RefCell::new(None) };
}

impl Host {
    /// A host that grants nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Panics at the first call of something that was not given, instead of denying it.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Grants a tool.
    #[must_use]
    pub fn tool(mut self, name: &str, answer: impl FnMut(&Value) -> Result<Value, Failure> + 'static) -> Self {
        self.tools.insert(name.to_owned(), Box::new(answer));
        self
    }

    /// Grants a skill.
    #[must_use]
    pub fn skill(mut self, name: &str, description: &str, body: &str) -> Self {
        let skill = self.skills.entry(name.to_owned()).or_default();
        (skill.description, skill.body) = (description.to_owned(), body.to_owned());
        self
    }

    /// Adds a file to a skill.
    #[must_use]
    pub fn skill_resource(mut self, skill: &str, path: &str, bytes: &[u8]) -> Self {
        self.skills.entry(skill.to_owned()).or_default().resources.insert(path.to_owned(), bytes.to_owned());
        self
    }

    /// Grants a root for reading, with these files.
    #[must_use]
    pub fn files<P: Into<String>, B: Into<Vec<u8>>>(
        mut self,
        root: &str,
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Self {
        let root = self.roots.entry(root.to_owned()).or_default();
        root.files.borrow_mut().extend(files.into_iter().map(|(path, bytes)| (path.into(), bytes.into())));
        self
    }

    /// Grants a root for reading and writing, with these files.
    #[must_use]
    pub fn writable_files<P: Into<String>, B: Into<Vec<u8>>>(
        self,
        root: &str,
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Self {
        let mut host = self.files(root, files);
        host.roots.entry(root.to_owned()).or_default().writable = true;
        host
    }

    /// Grants a store, with these entries.
    #[must_use]
    pub fn store<K: Into<String>, V: Into<Vec<u8>>>(
        mut self,
        store: &str,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let store = self.stores.entry(store.to_owned()).or_default();
        for (key, value) in entries {
            store.version += 1;
            store.entries.insert(key.into(), (store.version, value.into()));
        }
        self
    }

    /// Lets this host answer the calls of the current thread until the guard is dropped.
    ///
    /// # Panics
    /// When the thread has one already.
    #[must_use]
    #[expect(clippy::panic, reason = "a mistake in a test must fail it")]
    pub fn install(self) -> HostGuard {
        INSTALLED.with_borrow_mut(|installed| {
            if installed.is_some() {
                panic!("this thread has a test host already: drop its guard first");
            }
            *installed = Some(Installed { host: self, recorded: Recorded::default(), started: Vec::new() });
        });
        HostGuard { _thread: std::marker::PhantomData }
    }
}

/// An installed [`Host`]; records what it was asked.
pub struct HostGuard {
    _thread: std::marker::PhantomData<*const ()>,
}

impl HostGuard {
    /// Every tool call in order, those that were denied included.
    #[must_use]
    pub fn tool_calls(&self) -> Vec<(String, Value)> {
        recorded(|recorded| recorded.tool_calls.clone())
    }

    /// Every logged message in order.
    #[must_use]
    pub fn messages(&self) -> Vec<(Level, String)> {
        recorded(|recorded| recorded.messages.clone())
    }

    /// Every progress report in order: done, total, message.
    #[must_use]
    pub fn progress(&self) -> Vec<(u64, u64, String)> {
        recorded(|recorded| recorded.progress.clone())
    }

    /// A file of a root as it is now.
    #[must_use]
    pub fn file(&self, root: &str, path: &str) -> Option<Vec<u8>> {
        double::with(|installed| installed.host.roots.get(root)?.files.borrow().get(path).cloned())
    }

    /// A value of a store as it is now.
    #[must_use]
    pub fn stored(&self, store: &str, key: &str) -> Option<Vec<u8>> {
        double::with(|installed| Some(installed.host.stores.get(store)?.entries.get(key)?.1.clone()))
    }
}

impl Drop for HostGuard {
    fn drop(&mut self) {
        INSTALLED.with_borrow_mut(|installed| *installed = None);
    }
}

fn recorded<T>(read: impl FnOnce(&Recorded) -> T) -> T {
    double::with(|installed| read(&installed.recorded))
}

/// A context for tests: run `test`, step `test`, first visit, first attempt.
#[must_use]
pub fn context() -> Context {
    Context {
        run: "test".to_owned(),
        step: "test".to_owned(),
        visit: 1,
        attempt: 1,
        idempotency_key: "test/test/1".to_owned(),
    }
}

/// Invokes an operation as the host does, over JSON: its data, or its failure.
///
/// # Errors
/// As the operation.
#[expect(clippy::missing_panics_doc, reason = "the data was written as JSON a line before")]
#[expect(clippy::expect_used, reason = "the data was written as JSON a line before")]
pub fn invoke<O: Operation>(arguments: &Value) -> Result<crate::Success<Value>, Failure> {
    let reply = O::invoke(&arguments.to_string(), &context())?;
    let json = |text: String| serde_json::from_str(&text).expect("replies are JSON");
    Ok(crate::Success { data: json(reply.data), summary: reply.summary, details: reply.details.map(json) })
}

/// Asks a judge as the host does, over JSON.
///
/// # Errors
/// As the judge.
pub fn judge<J: Judge>(arguments: &Value) -> Result<Verdict, Failure> {
    J::judge(&arguments.to_string(), &context())
}

fn denial(capability: String) -> Denial {
    Denial { capability, rule: "not given to the test host".to_owned(), remedy: "give it to testing::Host".to_owned() }
}
