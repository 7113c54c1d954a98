//! Extism beside a cell. A line `fresh N` or `reused N` on standard input is answered with a line of N durations in nanoseconds.
//!
//! `fresh` compiles once and makes a plugin per call, as a cell does; `reused` calls one plugin again and again. The guest copies its
//! input to its output, which is less than the cell's echo does: it parses nothing and checks nothing.

use extism::{CompiledPlugin, Manifest, Plugin, PluginBuilder, Wasm};
use std::{
    error::Error,
    io::{BufRead, Write},
    time::Instant,
};

/// A module of Extism's own interface; its kernel owns the memory that input and output live in.
const ECHO: &str = r#"(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (func (export "echo") (result i32)
    (local $to i64) (local $at i64) (local $length i64)
    (local.set $length (call $input_length))
    (local.set $to (call $alloc (local.get $length)))
    (block $done
      (loop $next
        (br_if $done (i64.ge_u (local.get $at) (local.get $length)))
        (call $store (i64.add (local.get $to) (local.get $at)) (call $load (local.get $at)))
        (local.set $at (i64.add (local.get $at) (i64.const 1)))
        (br $next)))
    (call $output (local.get $to) (local.get $length))
    (i32.const 0)))"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().nth(1).ok_or("which arguments?")?;
    let manifest = Manifest::new([Wasm::data(ECHO.as_bytes())]);
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
                return Err("it is no echo".into());
            }
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", times.join(" "))?;
        out.flush()?;
    }
    Ok(())
}
