//! The process itself, under the names that Prometheus' own clients give, and its build.

#![allow(clippy::cast_precision_loss, reason = "for monitoring")]

use std::{
    fmt::Write as _,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

/// When this process began, as far as this module has seen.
static BEGAN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// From now on the process counts as begun.
pub(crate) fn begin() {
    LazyLock::force(&BEGAN);
}

/// Adds the families of the process.
pub(super) fn write(out: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(
        out,
        "# HELP opcell_build_info The version of this server.\n# TYPE opcell_build_info gauge\n\
         opcell_build_info{{version=\"{version}\"}} 1"
    );
    let began = BEGAN.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    gauge(out, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.", began);
    let Some(usage) = Usage::of_self() else { return };
    gauge(out, "process_cpu_seconds_total", "counter", "Processor time that was used.", usage.cpu.as_secs_f64());
    gauge(out, "process_resident_memory_bytes", "gauge", "Memory that is resident.", usage.resident as f64);
    gauge(out, "process_virtual_memory_bytes", "gauge", "Address space that is reserved.", usage.reserved as f64);
    gauge(out, "process_open_fds", "gauge", "Files and sockets that are open.", usage.open as f64);
}

fn gauge(out: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

/// Resources that the process uses.
struct Usage {
    cpu: Duration,
    resident: u64,
    reserved: u64,
    open: u64,
}

/// Parts of a second in which Linux counts processor time for programs.
const TICKS: f64 = 100.0;

impl Usage {
    /// As Linux says it; none elsewhere.
    fn of_self() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
        };
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program comes first, and may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks =
            fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap_or(0)).sum::<u64>();
        let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        let cpu = Duration::from_secs_f64(ticks as f64 / TICKS);
        Some(Self { cpu, resident: kib("VmRSS")? * 1024, reserved: kib("VmSize")? * 1024, open })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_says_what_it_uses() {
        let usage = Usage::of_self().unwrap();
        assert!(usage.resident > 1 << 20 && usage.reserved >= usage.resident, "{} {}", usage.resident, usage.reserved);
        assert!(usage.open >= 3, "{}", usage.open);
        let mut text = String::new();
        write(&mut text);
        assert!(text.contains("opcell_build_info{version=\"") && text.contains("\nprocess_open_fds "), "{text}");
    }
}
