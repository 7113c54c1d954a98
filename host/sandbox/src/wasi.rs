//! A closed WASI 0.2 for components of ordinary toolchains: clock, random numbers, and output that becomes log lines.
//! No arguments, environment, standard input, network or, unless the operator grants it explicitly, files.

use crate::{
    budget::Interface,
    error::LoadError,
    grants::DangerousPreopen,
    imports::append_line,
    receipt::{Level, Stream},
    recording,
    state::CellState,
};
use bytes::Bytes;
use opcell_types::{
    Access,
    control::{ControlFiles, decides_in},
};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    Deterministic, FsPerms, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// Bytes of random numbers that one call returns at most.
const MAX_RANDOM: u64 = 64 << 10;

/// Bytes that a guest may hand to an output stream at once.
const WRITE_BYTES: usize = 64 << 10;

/// The WASI state of one cell.
pub(crate) struct ClosedWasi {
    ctx: WasiCtx,
    stdout: Captured,
    stderr: Captured,
}

impl ClosedWasi {
    /// `seed` makes clock and random numbers a function of it; else they are those of the tape, if there is one.
    pub(crate) fn new(
        seed: Option<&str>,
        log_bytes: u64,
        preopens: &[DangerousPreopen],
        tape: Option<&recording::Wasi>,
    ) -> wasmtime::Result<Self> {
        let (stdout, stderr) = (Captured::new(log_bytes), Captured::new(log_bytes));
        let mut builder = WasiCtxBuilder::new();
        builder.stdout(stdout.clone()).stderr(stderr.clone()).max_random_size(MAX_RANDOM);
        if let Some(seed) = seed {
            let mut stream = vec![0; 4_096];
            blake3::Hasher::new_derive_key("opcell 2026 deterministic random")
                .update(seed.as_bytes())
                .finalize_xof()
                .fill(&mut stream);
            builder
                .insecure_random_seed(u128::from_le_bytes(stream.first_chunk().copied().unwrap_or_default()))
                .insecure_random(Deterministic::new(stream.clone()))
                .secure_random(Deterministic::new(stream))
                .wall_clock(StepClock::default())
                .monotonic_clock(StepClock::default());
        } else if let Some(tape) = tape {
            tape.configure(&mut builder);
        }
        for preopen in preopens {
            let access = match preopen.access {
                Access::Read => FsPerms::ReadOnly,
                Access::ReadWrite => FsPerms::ReadWrite,
            };
            builder.preopened_dir(&preopen.host, &preopen.guest, access)?;
        }
        Ok(Self { ctx: builder.build(), stdout, stderr })
    }
}

/// Opens every preopen once, so that a wrong one is an error when the plugin is loaded.
pub(crate) fn check_preopens(preopens: &[DangerousPreopen], control: &ControlFiles) -> Result<(), LoadError> {
    for preopen in preopens {
        let failed = |source| LoadError::Grant { name: preopen.guest.clone(), path: preopen.host.clone(), source };
        let real = preopen.host.canonicalize().map_err(failed)?;
        if let Some(place) = control.sealed_by(&real) {
            let (name, path) = (preopen.guest.clone(), preopen.host.clone());
            return Err(LoadError::Sealed { name, path, place: place.to_owned() });
        }
        // A folder that cannot be looked through may hold anything.
        let decides = || control.decides_below(&real) || decides_in(&real).unwrap_or(true);
        if preopen.access == Access::ReadWrite && !preopen.control_files && decides() {
            return Err(LoadError::ControlFiles { guest: preopen.guest.clone(), path: preopen.host.clone() });
        }
        std::fs::read_dir(&preopen.host).map_err(failed)?;
    }
    Ok(())
}

impl WasiView for CellState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        // A view cannot refuse; the account remembers, and the next tick ends the cell.
        let _ = self.budget.charge(Interface::Wasi, 0);
        let wasi = self.wasi.get_or_insert_with(|| {
            // Only reached if a component without WASI imports called WASI.
            Box::new(ClosedWasi { ctx: WasiCtx::builder().build(), stdout: Captured::new(0), stderr: Captured::new(0) })
        });
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut self.resources }
    }
}

/// Turns what a guest wrote to its output streams into log lines.
pub(crate) fn drain_output(state: &mut CellState) {
    let Some(wasi) = &state.wasi else { return };
    let streams =
        [(Stream::Stdout, Level::Info, wasi.stdout.take()), (Stream::Stderr, Level::Warn, wasi.stderr.take())];
    for (stream, level, (bytes, dropped)) in streams {
        state.log.dropped_bytes += dropped;
        for line in String::from_utf8_lossy(&bytes).lines().filter(|line| !line.is_empty()) {
            append_line(state, level, stream, line);
        }
    }
}

/// The end of an output stream.
#[derive(Clone)]
struct Captured {
    limit: usize,
    tail: Arc<Mutex<Tail>>,
}

#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Captured {
    fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit).unwrap_or(usize::MAX), tail: Arc::default() }
    }

    fn append(&self, bytes: &[u8]) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.bytes.extend_from_slice(bytes);
        // Dropped in large pieces, so that a flood costs one copy per piece and not per write.
        if tail.bytes.len() > self.limit.saturating_mul(2) {
            let excess = tail.bytes.len() - self.limit;
            tail.bytes.drain(..excess);
            tail.dropped += excess as u64;
        }
    }

    fn take(&self) -> (Vec<u8>, u64) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut tail.bytes), std::mem::take(&mut tail.dropped))
    }
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Captured {
    async fn ready(&mut self) {}
}

impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.append(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

impl AsyncWrite for Captured {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.append(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A clock that moves by a millisecond whenever it is read.
#[derive(Default)]
struct StepClock(AtomicU64);

/// 2026-01-01T00:00:00Z: a time at which certificates and calendars behave.
const DETERMINISTIC_START: Duration = Duration::from_secs(1_767_225_600);

impl HostWallClock for StepClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        DETERMINISTIC_START + Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

impl HostMonotonicClock for StepClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) * 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_the_end_is_retained() {
        let captured = Captured::new(10);
        for number in 0..1_000 {
            captured.append(format!("{number}\n").as_bytes());
        }
        let (bytes, dropped) = captured.take();
        assert!(bytes.len() <= 20 && bytes.ends_with(b"998\n999\n"));
        assert_eq!(dropped + bytes.len() as u64, 3_890);
    }
}
