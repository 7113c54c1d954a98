//! Adapter of `opcell selftest --against`: Extism's Rust library.
//!
//! ```sh
//! (cd benches/extism && cargo build --release)
//! opcell selftest --against benches/extism/target/release/extism-adapter
//! ```
//!
//! The manifest's timeout stops loops, its largest number of pages bounds memories. What a guest prints goes nowhere,
//! as it does by default. Nothing bounds tables, and a wait inside of a host function is not interrupted, so a second
//! thread looks at the size of the process every 10 ms and ends it when it has grown too large, or when the deadline is
//! long over.

use extism::{Manifest, Plugin, Wasm};
use std::{
    env,
    error::Error,
    fs,
    process::exit,
    thread,
    time::{Duration, Instant},
};

const STOPPED: i32 = 10;

/// The memory that the process may take beyond what it took at first and the guest's memory.
const SLACK_BYTES: u64 = 64 << 20;

fn main() {
    if let Err(error) = guest() {
        stop(&error.to_string());
    }
    exit(0);
}

fn guest() -> Result<(), Box<dyn Error>> {
    let time = Duration::from_millis(env::var("SELFTEST_TIME_MS")?.parse()?);
    let memory: u64 = env::var("SELFTEST_MEMORY_BYTES")?.parse()?;
    let most = resident() + memory + SLACK_BYTES;
    thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < 2 * time {
            if resident() > most {
                stop("the process was ended: it had grown too large");
            }
            thread::sleep(Duration::from_millis(10));
        }
        stop("the process was ended: the guest was still in a host function")
    });
    let mut manifest = Manifest::new([Wasm::data(fs::read(env::var("SELFTEST_MODULE")?)?)])
        .with_timeout(time)
        .with_memory_max(u32::try_from(memory >> 16)?);
    let directory = env::var("SELFTEST_DIRECTORY")?;
    if !directory.is_empty() {
        manifest = manifest.with_allowed_path(directory, "/");
    }
    let mut plugin = Plugin::new(&manifest, [], true)?;
    plugin.call::<&str, &[u8]>(env::var("SELFTEST_FUNCTION")?, "")?;
    Ok(())
}

/// The resident set of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

fn stop(reason: &str) -> ! {
    eprintln!("{}", reason.lines().next().unwrap_or_default());
    exit(STOPPED)
}
