//! Runs one hot path so many times: `hot_paths NAME TIMES`, or lists them: `hot_paths`. `cargo xtask bench
//! --instructions` counts the instructions of two runs that differ in nothing but how often, so that what is set up
//! once counts for nothing.

use anyhow::{Context as _, Result};
use opcell_benches::hot;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let paths = hot::all()?;
    let Some(name) = arguments.next() else {
        for path in paths {
            println!("{}", path.name);
        }
        return Ok(());
    };
    let times: usize = arguments.next().context("how many times?")?.parse()?;
    let mut path = paths.into_iter().find(|path| path.name == name).with_context(|| format!("no path `{name}`"))?;
    for _ in 0..times {
        (path.run)();
    }
    Ok(())
}
