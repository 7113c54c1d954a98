//! The system's word on the next write to a log: a log that stays as it is takes no processor time.
//!
//! One inotify instance and one thread serve all stores of a process, however many tenants it has. A watch ends with its
//! first event: a log that is written all the time costs nothing here.

use rustix::fs::inotify;
use std::{
    collections::HashMap,
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    thread,
};
use tokio::sync::Notify;

/// Wakes the waiters of `written` at the next write to the file, of any process of this machine; returns `false` where
/// the system has no such watch.
///
/// A write of another machine, to a shared file system, is not told.
pub(super) fn at_next_write(file: &Path, written: &Arc<Notify>) -> bool {
    static WATCH: OnceLock<Option<Arc<Watch>>> = OnceLock::new();
    WATCH.get_or_init(|| Watch::start().ok()).as_ref().is_some_and(|watch| watch.add(file, written).is_ok())
}

struct Watch {
    inotify: OwnedFd,
    waiting: Mutex<HashMap<i32, Vec<Weak<Notify>>>>,
}

impl Watch {
    fn start() -> io::Result<Arc<Self>> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        let watch = Arc::new(Self { inotify, waiting: Mutex::default() });
        thread::Builder::new().name("opcell-news".to_owned()).spawn({
            let watch = watch.clone();
            move || watch.run()
        })?;
        Ok(watch)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<i32, Vec<Weak<Notify>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, file: &Path, written: &Arc<Notify>) -> io::Result<()> {
        // Locked first: the event may come before the watch is in the map.
        let mut waiting = self.waiting();
        let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::ATTRIB | inotify::WatchFlags::ONESHOT;
        let waiters = waiting.entry(inotify::add_watch(&self.inotify, file, flags)?).or_default();
        waiters.retain(|waiter| waiter.strong_count() > 0);
        if !waiters.iter().any(|waiter| waiter.as_ptr() == Arc::as_ptr(written)) {
            waiters.push(Arc::downgrade(written));
        }
        Ok(())
    }

    /// Passes the events on until the process ends.
    fn run(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => self.wake_all(),
                Ok(event) => wake(self.waiting().remove(&event.wd())),
                Err(rustix::io::Errno::INTR) => {}
                // Whoever waits looks at the log now and then.
                Err(_) => return self.wake_all(),
            }
        }
    }

    fn wake_all(&self) {
        self.waiting().drain().for_each(|(_, waiters)| wake(Some(waiters)));
    }
}

fn wake(waiters: Option<Vec<Weak<Notify>>>) {
    waiters.into_iter().flatten().filter_map(|waiter| waiter.upgrade()).for_each(|waiter| waiter.notify_waiters());
}
