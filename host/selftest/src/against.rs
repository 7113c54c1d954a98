//! The attacks that any WebAssembly host can be given, through an adapter: a command that runs one module with the
//! limits it is given.
//!
//! Cases of the hostile suite speak Opcell's own world. These are neutral twins: core modules with one exported
//! function `run`, which import nothing, or three functions of WASI preview 1. The adapter learns what to do from its
//! environment:
//!
//! | variable | is |
//! | --- | --- |
//! | `SELFTEST_MODULE` | path of the `.wasm` file |
//! | `SELFTEST_FUNCTION` | the function to call, without parameters and results |
//! | `SELFTEST_TIME_MS` | the time that compiling, instantiating and calling may take together |
//! | `SELFTEST_MEMORY_BYTES` | what its memories may hold |
//! | `SELFTEST_TABLE_ELEMENTS` | what its tables may hold |
//! | `SELFTEST_OUTPUT_BYTES` | what of its output may be kept |
//! | `SELFTEST_DIRECTORY` | the directory to preopen as `/`; empty: none |
//!
//! It exits with 0 when the call returned, and with 10 when the guest was stopped; the first line of its standard error
//! then says by what. A case is contained if the adapter ends in time, by itself, within the memory that it may take,
//! and as the case expects.

#![expect(clippy::disallowed_methods, reason = "all of it is in a temporary folder that this process has made")]

use serde::Serialize;
use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The limits of a guest that the adapter is given.
const TIME: Duration = Duration::from_millis(1_000);
const MEMORY_BYTES: u64 = 64 << 20;
const TABLE_ELEMENTS: u64 = 20_000;
const OUTPUT_BYTES: u64 = 64 << 10;

/// After this many times its deadline a guest that still runs is not contained.
const MAX_DEADLINES: u32 = 10;
/// The memory that an adapter may take beyond what it takes for the harmless module, and the guest's own memory.
const SLACK_BYTES: u64 = 128 << 20;
/// Exit code of an adapter that stopped its guest.
const STOPPED: i32 = 10;

/// The end of a contained guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The host stops it.
    Stopped,
    /// The call returns, since what it tried was refused.
    Returned,
    /// Either.
    Ended,
}

struct PortableCase {
    name: &'static str,
    guest: Guest,
    expected: Expected,
}

enum Guest {
    Text(&'static str),
    /// Too large to be written down.
    Made(fn() -> Vec<u8>),
}

impl Guest {
    fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(wat::parse_str(text)?),
            Self::Made(make) => Ok(make()),
        }
    }
}

const PORTABLE_CASES: &[PortableCase] = &[
    PortableCase { name: "loop", guest: Guest::Text(include_str!("twins/loop.wat")), expected: Expected::Stopped },
    PortableCase {
        name: "loop-in-start",
        guest: Guest::Text(include_str!("twins/loop-in-start.wat")),
        expected: Expected::Stopped,
    },
    PortableCase {
        name: "memory-bomb",
        guest: Guest::Text(include_str!("twins/memory-bomb.wat")),
        expected: Expected::Ended,
    },
    PortableCase {
        name: "table-bomb",
        guest: Guest::Text(include_str!("twins/table-bomb.wat")),
        expected: Expected::Ended,
    },
    PortableCase {
        name: "deep-recursion",
        guest: Guest::Text(include_str!("twins/deep-recursion.wat")),
        expected: Expected::Stopped,
    },
    PortableCase {
        name: "output-flood",
        guest: Guest::Text(include_str!("twins/output-flood.wat")),
        expected: Expected::Stopped,
    },
    PortableCase {
        name: "host-sleep",
        guest: Guest::Text(include_str!("twins/host-sleep.wat")),
        expected: Expected::Ended,
    },
    PortableCase { name: "compile-bomb", guest: Guest::Made(compile_bomb), expected: Expected::Ended },
    PortableCase {
        name: "path-escape",
        guest: Guest::Text(include_str!("twins/path-escape.wat")),
        expected: Expected::Returned,
    },
];

/// Blocks of the compile bomb's one function: 3 MB of code, in which eight numbers live across all of them.
const BLOCKS: usize = 100_000;

/// A module whose one function is so long that compiling it takes longer than any call of it may.
fn compile_bomb() -> Vec<u8> {
    // `(block (br_if 0 (i32.eqz (local.get 0))) (local.set 1 (i64.add (local.get 2) (local.get 3)))
    // (local.set 2 (i64.mul (local.get 1) (local.get 4))) (local.set 3 (i64.xor (local.get 2) (local.get 5))))`
    let block = [
        &[0x02, 0x40, 0x20, 0, 0x45, 0x0d, 0, 0x20, 2, 0x20, 3, 0x7c, 0x21, 1][..],
        &[0x20, 1, 0x20, 4, 0x7e, 0x21, 2, 0x20, 2, 0x20, 5, 0x85, 0x21, 3, 0x0b],
    ]
    .concat();
    // A local of i32 and eight of i64 before them, an end after them.
    let body = [&[2, 1, 0x7f, 8, 0x7e][..], &block.repeat(BLOCKS), &[0x0b]].concat();
    let code = [&[1][..], &leb128(body.len()), &body].concat();
    [
        &b"\0asm\x01\0\0\0"[..],
        // One type, `() -> ()`; one function of it; its export as `run`.
        b"\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x07\x01\x03run\0\0\x0a",
        &leb128(code.len()),
        &code,
    ]
    .concat()
}

/// A number as WebAssembly writes it.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

/// The result of one portable case in another host.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The twin's name.
    pub name: String,
    /// `true` if the host held it.
    pub contained: bool,
    /// By what, in the adapter's words, or why not.
    pub by: String,
    /// From starting the adapter to its end, in milliseconds.
    pub elapsed_ms: u64,
    /// The adapter's largest resident set, in bytes; what it needs without a guest is part of it.
    pub peak_bytes: u64,
}

/// The results of all portable cases in another host.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The adapter, as it was given.
    pub command: String,
    /// Its largest resident set with a module that does nothing, in bytes.
    pub idle_bytes: u64,
    /// In order of the suite.
    pub cases: Vec<Verdict>,
}

/// Runs every twin whose name contains `filter` through the adapter `command`, which a shell reads.
///
/// # Errors
///
/// If a guest cannot be written, or if the adapter does not run the harmless module: nothing that it then says of
/// others is worth reading.
pub fn compare(command: &str, filter: Option<&str>, note: &dyn Fn(&str)) -> anyhow::Result<Comparison> {
    let folder = tempfile::tempdir()?;
    let harmless = run(command, folder.path(), &Guest::Text("(module (func (export \"run\")))"))?;
    anyhow::ensure!(
        harmless.code == Some(0),
        "the adapter does not run a module whose function `run` does nothing: it ended with {} and said: {}",
        harmless.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string()),
        harmless.said
    );
    let mut cases = Vec::new();
    for twin in PORTABLE_CASES.iter().filter(|twin| filter.is_none_or(|filter| twin.name.contains(filter))) {
        note(twin.name);
        cases.push(judge(twin, &run(command, folder.path(), &twin.guest)?, harmless.peak_bytes));
    }
    Ok(Comparison { command: command.to_owned(), idle_bytes: harmless.peak_bytes, cases })
}

fn judge(twin: &PortableCase, ended: &Ended, idle_bytes: u64) -> Verdict {
    let allowed = idle_bytes + MEMORY_BYTES + SLACK_BYTES;
    let failure = match ended.code {
        None if ended.overdue => Some(format!("still ran after {} s", (TIME * MAX_DEADLINES).as_secs())),
        None => Some("the host itself was killed by a signal".to_owned()),
        Some(0) if twin.expected == Expected::Stopped => {
            Some("the call returned as if nothing had happened".to_owned())
        }
        Some(STOPPED) if twin.expected == Expected::Returned => Some("the guest reached what it must not".to_owned()),
        Some(0 | STOPPED) if ended.peak_bytes > allowed => {
            Some(format!("took {} MiB, more than {} MiB", ended.peak_bytes >> 20, allowed >> 20))
        }
        Some(0 | STOPPED) => None,
        Some(code) => Some(format!("the adapter failed with {code}: {}", ended.said)),
    };
    let by = match (&failure, ended.code) {
        (Some(why), _) => why.clone(),
        (None, Some(STOPPED)) if !ended.said.is_empty() => ended.said.clone(),
        (None, Some(STOPPED)) => "stopped".to_owned(),
        (None, _) => "refused; the call returned".to_owned(),
    };
    Verdict {
        name: twin.name.to_owned(),
        contained: failure.is_none(),
        by,
        elapsed_ms: u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX),
        peak_bytes: ended.peak_bytes,
    }
}

struct Ended {
    /// Nothing after a signal.
    code: Option<i32>,
    /// `true` if the signal was ours, since it took too long.
    overdue: bool,
    said: String,
    elapsed: Duration,
    peak_bytes: u64,
}

fn run(command: &str, folder: &Path, guest: &Guest) -> anyhow::Result<Ended> {
    let module = folder.join("guest.wasm");
    fs::write(&module, guest.bytes()?)?;
    let directory = folder.join("preopened");
    fs::create_dir_all(&directory)?;
    fs::write(folder.join("secret.txt"), "secret")?;
    let link = directory.join("link");
    if link.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("../secret.txt", link)?;
    }
    let started = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {command}")])
        .env("SELFTEST_MODULE", &module)
        .env("SELFTEST_FUNCTION", "run")
        .env("SELFTEST_TIME_MS", TIME.as_millis().to_string())
        .env("SELFTEST_MEMORY_BYTES", MEMORY_BYTES.to_string())
        .env("SELFTEST_TABLE_ELEMENTS", TABLE_ELEMENTS.to_string())
        .env("SELFTEST_OUTPUT_BYTES", OUTPUT_BYTES.to_string())
        .env("SELFTEST_DIRECTORY", &directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut peak_bytes = 0;
    let mut overdue = false;
    let status = loop {
        peak_bytes = peak_bytes.max(resident_peak(&child));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > TIME * MAX_DEADLINES {
            overdue = true;
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let elapsed = started.elapsed();
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(64 << 10).read_to_end(&mut said)?;
    }
    let said = opcell_types::text::printable(String::from_utf8_lossy(&said).lines().next().unwrap_or_default(), 160);
    Ok(Ended { code: status.code(), overdue, said, elapsed, peak_bytes })
}

/// The largest resident set of a process so far, in bytes; 0 when it has ended.
fn resident_peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_runs_nothing_contains_only_what_may_return() {
        let compared = compare("true", None, &|_| {}).unwrap();
        let contained = |name: &str| compared.cases.iter().find(|case| case.name == name).unwrap().contained;
        assert!(!contained("loop") && !contained("deep-recursion"), "{compared:?}");
        assert!(contained("path-escape") && contained("memory-bomb"), "{compared:?}");
    }

    /// The module for the adapters is read by whatever reads WebAssembly.
    #[test]
    fn the_compile_bomb_is_well_formed() {
        let bomb = compile_bomb();
        assert!(bomb.len() > 2 << 20, "{}", bomb.len());
        wasmparser::validate(&bomb).unwrap();
        assert_eq!(leb128(624_485), [0xe5, 0x8e, 0x26]);
    }

    #[test]
    fn an_adapter_that_fails_on_the_harmless_module_is_not_believed() {
        let error = compare("sh -c 'echo no such host >&2; exit 3'", None, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("ended with 3 and said: no such host"), "{error}");
    }

    #[test]
    fn a_guest_that_gets_out_shows_as_a_stop_where_a_refusal_is_expected() {
        let adapter =
            "sh -c 'cmp -s \"$SELFTEST_MODULE\" /dev/null; grep -q path_open \"$SELFTEST_MODULE\" && exit 10; exit 0'";
        let compared = compare(adapter, Some("path-escape"), &|_| {}).unwrap();
        assert!(!compared.cases.first().unwrap().contained, "{compared:?}");
    }
}
