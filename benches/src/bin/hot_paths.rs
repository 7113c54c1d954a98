//! Runs one hot path this many times: `hot_paths NAME TIMES`, or lists them: `hot_paths`. `cargo xtask bench
//! --instructions` counts the instructions of two runs that differ in nothing but how often, so that what is set up
//! once counts for nothing.

use anyhow::{Context as _, Result};
use opcell_benches::hot;

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for name in hot::NAMES {
            println!("{name}");
        }
        return Ok(());
    };
    let times: usize = arguments.next().context("how many times?")?.parse()?;
    let mut path = hot::without_time(&name)?;
    for _ in 0..times {
        (path.run)();
    }
    Ok(())
}
