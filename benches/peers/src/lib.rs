//! The protocol of `opcell bench --library NAME=COMMAND` for a program that times calls of a library in its own
//! process.
//!
//! The first line on standard input is the arguments, JSON. The program calls once, and answers with an object on one
//! line: `about`, `isolates`, and what the call returned as `answer`. Each further line is a number of calls, answered
//! with as many durations in nanoseconds.

use anyhow::{Context as _, Result, ensure};
use std::{
    io::{BufRead as _, Write as _},
    time::Instant,
};

/// Answers to the end of standard input. `make` is given the arguments, and makes what is timed.
///
/// # Errors
/// When a call fails, or is no echo.
pub fn serve<Call: FnMut() -> Result<usize>>(
    about: &str,
    isolates: &[&str],
    make: impl FnOnce(String) -> Result<Call>,
) -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut out = std::io::stdout().lock();
    let arguments = lines.next().context("no arguments")??;
    let length = arguments.len();
    let mut call = make(arguments.clone())?;
    let answered = call()?;
    ensure!(answered == length, "it is not an echo: {answered} bytes for {length}");
    writeln!(out, "{}", serde_json::json!({ "about": about, "isolates": isolates, "answer": arguments }))?;
    out.flush()?;
    for line in lines {
        let mut times = Vec::new();
        for _ in 0..line?.trim().parse::<usize>()? {
            let started = Instant::now();
            let answered = call()?;
            times.push(started.elapsed().as_nanos().to_string());
            ensure!(answered == length, "it is not an echo: {answered} bytes for {length}");
        }
        writeln!(out, "{}", times.join(" "))?;
        out.flush()?;
    }
    Ok(())
}
