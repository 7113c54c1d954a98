//! Extism beside a cell: `extism-peer PLUGIN ARGUMENTS`. A line `fresh N` or `reused N` on standard input is answered
//! with a line of N durations in nanoseconds.
//!
//! `fresh` compiles once and makes a plugin per call, as a cell does; `reused` calls one plugin again and again. The
//! guest (`guest/`) parses its arguments and writes them out again, as the cell's echo does; nothing is checked against
//! a schema.

use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};
use std::{
    error::Error,
    io::{BufRead, Write},
    time::Instant,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let plugin = words.next().ok_or("which plugin?")?;
    let arguments = words.next().ok_or("which arguments?")?;
    let manifest = Manifest::new([Wasm::data(std::fs::read(plugin)?)]);
    let compiled = CompiledPlugin::new(PluginBuilder::new(manifest))?;
    let mut reused = Plugin::new_from_compiled(&compiled)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (what, calls) = line.split_once(' ').ok_or("a line is `fresh N` or `reused N`")?;
        let mut times = Vec::new();
        for _ in 0..calls.parse::<usize>()? {
            let started = Instant::now();
            let length = match what {
                "fresh" => {
                    let mut fresh = Plugin::new_from_compiled(&compiled)?;
                    fresh.call::<&str, &[u8]>("echo", &arguments)?.len()
                }
                _ => reused.call::<&str, &[u8]>("echo", &arguments)?.len(),
            };
            times.push(started.elapsed().as_nanos().to_string());
            if length != arguments.len() {
                return Err("it is not an echo".into());
            }
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", times.join(" "))?;
        out.flush()?;
    }
    Ok(())
}
