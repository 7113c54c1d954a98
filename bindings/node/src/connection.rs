//! The one Tokio runtime of the process, and the connection to a thread of JavaScript.

use crate::{
    error,
    host::{NativeHost, SharedHost, ToolSettings},
    run::NativeWorkflow,
    value::Given,
};
use futures_util::{FutureExt as _, future::join_all};
use napi::{
    Env, Status,
    bindgen_prelude::{Buffer, FnArgs, Function, ToNapiValue, Unknown},
    threadsafe_function::{ThreadsafeCallContext, ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;
use opcell::{CancellationToken, Host};
use opcell_bindings::error::Raised;
use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tokio::runtime::{Handle, Runtime};

/// Time that the hosts of a thread have to close when it ends.
const END_TIME: Duration = Duration::from_secs(2);

/// The runtime, for as long as the process lives.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Returns the runtime, which the first use starts.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn runtime() -> Result<&'static Handle, Raised> {
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            opcell::layers::workers::install();
            let started = opcell::runtime().map_err(|problem| {
                Raised::new("host", "no-threads", &format!("the runtime cannot be started: {problem}"))
            })?;
            RUNTIME.get_or_init(|| started)
        }
    };
    Ok(runtime.handle())
}

/// Makes a value of JavaScript, on its thread.
pub(crate) type Make = Box<dyn FnOnce(&Env) -> napi::Result<Unknown<'static>> + Send>;

/// The end of an operation.
pub(crate) type Ended = Result<Make, Raised>;

/// Returns what makes a value on the thread of JavaScript.
pub(crate) fn make(value: impl ToNapiValue + Send + 'static) -> Make {
    Box::new(move |env| {
        let made = value.into_unknown(env)?;
        // SAFETY: the value is used in the scope of the report that it is made for.
        Ok(unsafe { Unknown::from_raw_unchecked(env.raw(), napi::JsValue::raw(&made)) })
    })
}

/// The end of an operation with this result.
#[expect(clippy::unnecessary_wraps, reason = "it is the end of an operation, which may as well have failed")]
pub(crate) fn done(value: impl ToNapiValue + Send + 'static) -> Ended {
    Ok(make(value))
}

/// The subject of a report: `lib/native.js` has the same numbers.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    /// The result of the operation with this number.
    Done = 0,
    /// The error of the operation with this number.
    Failed = 1,
    /// A call of a tool of the host with this number.
    Tool = 2,
    /// A round of a model of the host with this number.
    Round = 3,
    /// No one waits for the call or round with this number any more.
    Abandoned = 4,
}

/// A report to the thread of JavaScript.
struct Report {
    subject: Subject,
    number: f64,
    make: Make,
}

type Arguments = FnArgs<(u32, f64, Unknown<'static>)>;
type Told = ThreadsafeFunction<Report, Unknown<'static>, Arguments, Status, false, true>;

/// A thread of JavaScript: where reports go, and what is in flight for it.
pub(crate) struct Connection {
    told: Told,
    in_flight: Mutex<HashMap<u64, CancellationToken>>,
    hosts: Mutex<Vec<Weak<SharedHost>>>,
}

/// The connection to the thread of JavaScript that made it.
#[napi]
pub struct NativeConnection {
    connection: Arc<Connection>,
}

/// Connects the calling thread: `told(subject, number, value)` is called on it for every report. It does not keep the
/// thread's event loop alive.
#[napi]
pub fn connect(env: Env, told: Function<'_, Arguments, Unknown<'static>>) -> napi::Result<NativeConnection> {
    let told = told.build_threadsafe_function::<Report>().weak::<true>().build_callback(arguments)?;
    let connection = Arc::new(Connection { told, in_flight: Mutex::default(), hosts: Mutex::default() });
    env.add_env_cleanup_hook(connection.clone(), |connection| connection.end())?;
    Ok(NativeConnection { connection })
}

/// Makes the arguments of a report. A value that cannot be made is a failure of its operation.
fn arguments(context: ThreadsafeCallContext<Report>) -> napi::Result<Arguments> {
    let ThreadsafeCallContext { env, value: Report { subject, number, make: value } } = context;
    let (subject, value) = match value(&env) {
        Ok(value) => (subject, value),
        Err(problem) => {
            let problem = format!("the result cannot be handed to JavaScript: {}", problem.reason);
            (Subject::Failed, make(error::data(Raised::new("host", "out-of-memory", &problem)))(&env)?)
        }
    };
    Ok((subject as u32, number, value).into())
}

impl Connection {
    /// Reports to the thread of JavaScript. Lost once it has ended.
    pub(crate) fn report(&self, subject: Subject, number: f64, make: Make) {
        let report = Report { subject, number, make };
        let _ = self.told.call(report, ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Begins an operation under a number; it is dropped when it is cancelled.
    pub(crate) fn begin(self: &Arc<Self>, number: f64, work: impl Future<Output = Ended> + Send + 'static) {
        let cancel = CancellationToken::new();
        let dropped = cancel.clone();
        self.perform(number, cancel, async move {
            tokio::select! {
                biased;
                ended = work => Some(ended),
                () = dropped.cancelled() => None,
            }
        });
    }

    /// Begins an operation that this token ends in order.
    pub(crate) fn begin_cancelled_by(
        self: &Arc<Self>,
        number: f64,
        cancel: CancellationToken,
        work: impl Future<Output = Ended> + Send + 'static,
    ) {
        self.perform(number, cancel, work.map(Some));
    }

    fn perform(
        self: &Arc<Self>,
        number: f64,
        cancel: CancellationToken,
        work: impl Future<Output = Option<Ended>> + Send + 'static,
    ) {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(raised) => return self.ended(number, Err(raised)),
        };
        self.in_flight().insert(number.to_bits(), cancel);
        let connection = self.clone();
        runtime.spawn(async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                Some(Err(Raised::new("host", "panicked", "the operation ended without a result: report it as a bug")))
            });
            connection.in_flight().remove(&number.to_bits());
            if let Some(ended) = ended {
                connection.ended(number, ended);
            }
        });
    }

    fn ended(&self, number: f64, ended: Ended) {
        match ended {
            Ok(result) => self.report(Subject::Done, number, result),
            Err(raised) => self.report(Subject::Failed, number, make(error::data(raised))),
        }
    }

    fn in_flight(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a host, to close it when the thread ends.
    pub(crate) fn keep(&self, host: &Arc<SharedHost>) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|host| host.strong_count() > 0);
        hosts.push(Arc::downgrade(host));
    }

    /// Stops what is in flight: the thread of JavaScript ends.
    fn end(&self) {
        for (_, cancel) in self.in_flight().drain() {
            cancel.cancel();
        }
        let hosts = std::mem::take(&mut *self.hosts.lock().unwrap_or_else(PoisonError::into_inner));
        let hosts: Vec<Host> = hosts.iter().filter_map(|host| Some(host.upgrade()?.host())).collect();
        let Some(runtime) = RUNTIME.get().filter(|_| !hosts.is_empty()) else { return };
        runtime.block_on(async {
            let closing = join_all(hosts.iter().map(|host| host.close(Duration::ZERO)));
            let _ = tokio::time::timeout(END_TIME, closing).await;
        });
    }
}

#[napi]
impl NativeConnection {
    /// Cancels an operation.
    #[napi]
    pub fn cancel(&self, number: f64) {
        if let Some(cancel) = self.connection.in_flight().get(&number.to_bits()) {
            cancel.cancel();
        }
    }

    /// Builds a host of its settings, of the bytes of components by the names of their plugins, and of tools and
    /// models; calls of these are reported under `host`. The result is a `NativeHost`.
    #[napi]
    #[allow(clippy::too_many_arguments, reason = "a call of JavaScript")]
    pub fn open_host(
        &self,
        number: f64,
        host: f64,
        settings: Given,
        components: HashMap<String, Buffer>,
        tools: Vec<ToolSettings>,
        model: bool,
        providers: Vec<String>,
    ) -> napi::Result<()> {
        // A copy: JavaScript may change its own.
        let components = components.into_iter().map(|(name, bytes)| (name, bytes.to_vec())).collect();
        let settings = settings.named("the settings")?;
        let opening = NativeHost::open(&self.connection, host, &settings, components, tools, model, providers)?;
        self.connection.begin(number, opening);
        Ok(())
    }

    /// Reads and compiles a document; the result is a `NativeWorkflow`.
    #[napi]
    pub fn load_workflow(&self, number: f64, path: String) {
        self.connection.begin(number, NativeWorkflow::load(path));
    }

    /// Reads the requests of a project file that reach outside of its folder.
    #[napi]
    pub fn requests(&self, number: f64, project: String) {
        self.connection.begin(number, crate::host::requests(project));
    }
}
