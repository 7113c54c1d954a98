//! QuickJS in this process: `quickjs-peer fresh` makes a runtime for each call, `quickjs-peer reused` calls one
//! function of one runtime again and again.
//!
//! A fresh runtime has a memory limit, a stack limit and an interrupt handler with a deadline, and no module that
//! reaches the system. Its script parses its arguments and writes them out again, as the cell's echo does. Nothing is
//! checked against a schema.

use anyhow::{Result, bail};
use bench_peers::serve;
use rquickjs::{Context, Function, Runtime};
use std::time::{Duration, Instant};

const ECHO: &str = "(text) => JSON.stringify(JSON.parse(text))";

/// The default memory of a cell.
const MEMORY: usize = 64 << 20;
const STACK: usize = 512 << 10;
const TIME: Duration = Duration::from_secs(30);

fn runtime() -> Result<(Runtime, Context)> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(MEMORY);
    runtime.set_max_stack_size(STACK);
    let deadline = Instant::now() + TIME;
    runtime.set_interrupt_handler(Some(Box::new(move || Instant::now() > deadline)));
    let context = Context::full(&runtime)?;
    Ok((runtime, context))
}

fn call(context: &Context, arguments: &str) -> Result<usize> {
    context.with(|context| {
        let echo: Function<'_> = context.eval(ECHO)?;
        let answer: String = echo.call((arguments,))?;
        Ok(answer.len())
    })
}

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("fresh") => serve(
            "a QuickJS runtime per call in one process: memory, stack and time limited, no module of the system",
            &["state", "time", "memory", "system"],
            |arguments| {
                Ok(move || {
                    let (_runtime, context) = runtime()?;
                    call(&context, &arguments)
                })
            },
        ),
        Some("reused") => serve(
            "one QuickJS runtime and one function for all calls, for reference: calls see each other's state",
            &["time", "memory", "system"],
            |arguments| {
                let (runtime, context) = runtime()?;
                let echo = context.with(|context| {
                    let echo: Function<'_> = context.eval(ECHO)?;
                    rquickjs::Result::Ok(rquickjs::Persistent::save(&context, echo))
                })?;
                Ok(move || {
                    let _ = &runtime;
                    let echo = echo.clone();
                    context.with(|context| {
                        let answer: String = echo.restore(&context)?.call((arguments.as_str(),))?;
                        Ok(answer.len())
                    })
                })
            },
        ),
        _ => bail!("`fresh` or `reused`?"),
    }
}
