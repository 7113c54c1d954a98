//! Everything around cells: documents of three languages, expressions, prompts, the journal, whole workflows.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failed test")]

use criterion::{Criterion, criterion_group, criterion_main};
use opcell_benches::hot;

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

fn hot_paths(c: &mut Criterion) {
    for mut path in hot::all().unwrap() {
        c.bench_function(path.name, |b| b.iter(|| (path.run)()));
    }
}

criterion_group!(benches, hot_paths);
criterion_main!(benches);
