//! The compiling process.

use super::confine::confine;
use super::frame::{Answer, MAX_LINE, Request, VERSION};
use crate::engine::{Metering, Room, compatibility, compiler};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::{BufRead, Read, Write},
    process::ExitCode,
};

/// Compiles the component on standard input to native code on standard output, within the limits that the parent sends.
///
/// The process should do nothing else: it never runs the component, and it ends afterwards.
#[must_use]
pub fn child_main() -> ExitCode {
    match serve_stdio() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

pub(super) fn serve_stdio() -> Result<(), String> {
    serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock(), confine)
}

/// `confine` shuts this process off once it has its input; tests have none.
fn serve(input: &mut impl BufRead, output: &mut impl Write, confine: impl FnOnce()) -> Result<(), String> {
    let ready = Answer::Ready { version: VERSION.to_owned() };
    output.write_all(ready.line().as_bytes()).and_then(|()| output.flush()).map_err(|error| error.to_string())?;
    let mut line = String::new();
    input.take(MAX_LINE).read_line(&mut line).map_err(|error| error.to_string())?;
    let request = Request::parse(&line)?;
    // The request is the parent's; from here on, nothing but the component decides how much is used.
    restrict(&request)?;
    let mut component = Vec::new();
    input.take(request.bytes).read_to_end(&mut component).map_err(|error| error.to_string())?;
    if blake3::hash(&component).to_hex().as_str() != request.digest {
        return Err("the component was truncated or changed in transit".to_owned());
    }
    confine();
    let metering = if request.deterministic { Metering::Deterministic } else { Metering::Ticks };
    let room = if request.scarce { Room::Scarce } else { Room::Plenty };
    let engine = compiler(metering, room).map_err(|error| error.to_string())?;
    let made = engine.precompile_component(&component);
    let (answer, compiled) = match made {
        Ok(compiled) => {
            let digest = blake3::hash(&compiled).to_hex().to_string();
            (Answer::Compiled { engine: compatibility(&engine), bytes: compiled.len() as u64, digest }, compiled)
        }
        Err(error) => {
            (Answer::Rejected { message: opcell_types::text::printable(&format!("{error:#}"), 8_192) }, Vec::new())
        }
    };
    output
        .write_all(answer.line().as_bytes())
        .and_then(|()| output.write_all(&compiled))
        .and_then(|()| output.flush())
        .map_err(|error| error.to_string())
}

fn restrict(request: &Request) -> Result<(), String> {
    let limits = [
        (Resource::As, request.address_space),
        // One second more to the hard limit, so that the process dies of the signal that names the reason.
        (Resource::Cpu, request.cpu_seconds),
        (Resource::Fsize, 0),
        (Resource::Nofile, 64),
        (Resource::Core, 0),
    ];
    for (resource, limit) in limits {
        // What the host itself lives under cannot be raised, and need not be.
        let ceiling = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let grace = u64::from(resource == Resource::Cpu);
        let new = Rlimit { current: Some(limit.min(ceiling)), maximum: Some((limit + grace).min(ceiling)) };
        setrlimit(resource, new).map_err(|error| format!("cannot limit {resource:?}: {error}"))?;
    }
    Ok(())
}
