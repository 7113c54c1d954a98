//! Hostile guests: from a case's file to the component that is loaded.

use anyhow::{Context, Result, bail};

/// The plugin contract: one WIT document for each version, oldest first.
const WIT: &[&str] = &[
    concat!(
        include_str!("../wit/deps/plugin-0.1.0/types.wit"),
        include_str!("../wit/deps/plugin-0.1.0/operations.wit"),
        include_str!("../wit/deps/plugin-0.1.0/judges.wit"),
        include_str!("../wit/deps/plugin-0.1.0/host.wit"),
        include_str!("../wit/deps/plugin-0.1.0/worlds.wit"),
    ),
    concat!(include_str!("../wit/deps/plugin-0.2.0/store.wit"), include_str!("../wit/deps/plugin-0.2.0/worlds.wit")),
    concat!(include_str!("../wit/calls.wit"), include_str!("../wit/worlds.wit")),
];

/// The texts of `;; @prelude…` lines, by the name that `-without-…` leaves out.
const PRELUDE: &[(&str, &str)] = &[
    ("memory", include_str!("../hostile/preludes/memory.wat")),
    ("realloc", include_str!("../hostile/preludes/realloc.wat")),
    ("describe", include_str!("../hostile/preludes/describe.wat")),
    ("success", include_str!("../hostile/preludes/success.wat")),
];
const JUDGE_DESCRIBE: &str = include_str!("../hostile/preludes/describe-judge.wat");

/// The bytes to load: `text` as a component of `world`, with a manifest if it needs one. `wit` adds packages to choose
/// the world from. A WAT file that already is a component is taken as it is.
///
/// # Errors
/// When the text is not WAT, a directive is unknown, or the module does not fit the world.
pub fn component_from_wat(text: &str, wit: Option<&str>, world: &str, manifest: Option<&str>) -> Result<Vec<u8>> {
    let expanded = expand(text)?;
    let mut bytes = wat::parse_str(&expanded)?;
    if expanded.trim_start().starts_with("(component") {
        return Ok(bytes);
    }
    if let Some(manifest) = manifest {
        append_custom_section(&mut bytes, "opcell:manifest", manifest.as_bytes());
    }
    wrap(bytes, wit, world)
}

/// Replaces preludes and repeats lines.
fn expand(text: &str) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.trim().strip_prefix(";; @") {
            Some(directive) if directive.starts_with("repeat ") => {
                let times: usize =
                    directive.trim_start_matches("repeat ").trim().parse().context("`;; @repeat` takes a number")?;
                let body: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != ";; @end").collect();
                let body = body.join("\n") + "\n";
                expanded.push_str(&body.repeat(times));
            }
            Some(directive) => prelude(directive, &mut expanded)?,
            None => {
                expanded.push_str(line);
                expanded.push('\n');
            }
        }
    }
    Ok(expanded)
}

fn prelude(directive: &str, into: &mut String) -> Result<()> {
    let judge = directive == "judge-prelude";
    let without = match directive {
        "prelude" | "judge-prelude" => None,
        other => match other.strip_prefix("prelude-without-") {
            Some(part) if PRELUDE.iter().any(|(name, _)| *name == part) => Some(part),
            _ => bail!(
                "unknown directive `;; @{other}`: expected `@prelude`, `@prelude-without-PART`, `@judge-prelude` or `@repeat N`"
            ),
        },
    };
    for (name, text) in PRELUDE.iter().filter(|(name, _)| Some(*name) != without) {
        into.push_str(if judge && *name == "describe" { JUDGE_DESCRIBE } else { text });
    }
    Ok(())
}

/// A core module as a component of one of the contract's worlds.
fn wrap(mut module: Vec<u8>, wit: Option<&str>, world: &str) -> Result<Vec<u8>> {
    let mut resolve = wit_parser::Resolve::default();
    let mut package = None;
    for text in WIT.iter().copied().chain(wit) {
        package = Some(resolve.push_str("opcell-plugin.wit", text)?);
    }
    let world = resolve.select_world(package.as_slice(), Some(world))?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, wit_component::StringEncoding::UTF8, false)?;
    // The case may be invalid on purpose: the sandbox must find that out, not this wrapper.
    wit_component::ComponentEncoder::default().validate(false).module(&module)?.encode()
}

/// Custom sections may stand anywhere in a module, the end included.
fn append_custom_section(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut body = Vec::new();
    leb128(&mut body, name.len());
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(content);
    module.push(0);
    leb128(module, body.len());
    module.extend_from_slice(&body);
}

fn leb128(into: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            into.push(low);
            return;
        }
        into.push(low | 0x80);
    }
}
