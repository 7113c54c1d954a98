//! psi: documents checked per second, and a prompt of 50 tools and 100 skills assembled.
//!
//! The documents are those of this repository's own tests; `PSI_DOCUMENTS=FOLDER` adds others. What a step costs in the
//! engine is in `cargo run --release -p opcell-engine --example step_overhead`.

#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opcell_ir::{SourceFile, ir::PromptMode};
use opcell_session::prompt::{Entry, PromptParts, assemble};
use opcell_workflow::{companions::NoCompanions, document};
use std::{hint::black_box, path::PathBuf};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

fn documents() -> Vec<SourceFile> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut folders = vec![root.join("workflows")];
    let cases = std::fs::read_dir(root.join("tests/e2e/psi")).into_iter().flatten().flatten();
    folders.extend(cases.map(|case| case.path().join("workflows")));
    folders.extend(std::env::var_os("PSI_DOCUMENTS").map(PathBuf::from));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "edn" || ending == "md"))
        .filter_map(|path| Some(SourceFile::new(path.display().to_string(), std::fs::read_to_string(path).ok()?)))
        .collect()
}

fn check(criterion: &mut Criterion) {
    let documents = documents();
    assert!(documents.len() > 10, "the documents have moved");
    let mut group = criterion.benchmark_group("psi");
    group.throughput(Throughput::Elements(documents.len() as u64));
    group.bench_function("check", |bencher| {
        bencher.iter(|| {
            documents
                .iter()
                .map(|source| document::compile(black_box(source), &NoCompanions).diagnostics.len())
                .sum::<usize>()
        });
    });
    group.finish();
}

fn prompt(criterion: &mut Criterion) {
    let entries = |what: &str, count: usize| {
        (0..count)
            .map(|n| {
                Entry::new(
                    format!("{what}-{n}"),
                    format!("What the {what} of number {n} is for, in a sentence of usual length."),
                )
                .with_lambda((n % 2 == 0).then(|| format!("input({n}) → output")))
            })
            .collect::<Vec<_>>()
    };
    let mut tools = entries("tool", 49);
    tools.push(Entry::new("read", "Reads a file."));
    let skills = entries("skill", 100).into_iter().map(|skill| {
        let location = format!("skill:{}/SKILL.md", skill.name);
        skill.at(location)
    });
    let mut parts = PromptParts {
        tools,
        skills: skills.collect(),
        instructions: vec!["Do it.".to_owned()],
        ..PromptParts::default()
    };
    let mut group = criterion.benchmark_group("prompt-of-50-tools-and-100-skills");
    for (name, mode) in [("lambda", PromptMode::Lambda), ("prose", PromptMode::Prose)] {
        parts.mode = mode;
        group.bench_function(name, |bencher| bencher.iter(|| assemble(black_box(&parts)).text().len()));
    }
    group.finish();
}

criterion_group!(benches, check, prompt);
criterion_main!(benches);
