//! DOT, which Graphviz draws.

use super::{Drawing, Mark, Shape, Target};
use opcell::report::printable;
use std::fmt::Write as _;

impl Drawing {
    /// A directed graph in DOT.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut text =
            "digraph workflow {\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\", fontsize=10];\n  \
                        start [shape=circle, label=\"start\"];\n"
                .to_owned();
        for (index, node) in self.nodes.iter().enumerate() {
            let tone = node.mark.tone();
            let line = if node.mark == Mark::Plain { 0 } else { tone.line };
            let rounded = if node.shape == Shape::Session { "rounded," } else { "" };
            let dashed = match node.mark {
                Mark::Waiting => "dashed,",
                Mark::Skipped => "dotted,",
                _ => "",
            };
            let style =
                format!(", style=\"{rounded}{dashed}filled\", fillcolor=\"#{:06x}\", color=\"#{line:06x}\"", tone.fill);
            let _ = writeln!(text, "  s{index} [{}, label={}{style}];", shape(node.shape), quoted(&node.lines));
        }
        text.push_str("  done [shape=doublecircle, label=\"done\"];\n");
        if self.has_unknown() {
            text.push_str("  unknown [shape=plaintext, label=\"unknown step\"];\n");
        }
        let started = if self.is_started() { TAKEN } else { "" };
        let _ = writeln!(text, "  start -> {}{};", name(Target::Step(self.entry)), attributes(&[], started));
        for edge in &self.edges {
            let attributes = attributes(&edge.label(), if edge.is_taken() { TAKEN } else { "" });
            let _ = writeln!(text, "  s{} -> {}{attributes};", edge.from, name(edge.to));
        }
        text.push_str("}\n");
        text
    }
}

const TAKEN: &str = "penwidth=2.5, color=\"#1a7f37\"";

fn attributes(label: &[String], style: &str) -> String {
    match (label, style) {
        ([], "") => String::new(),
        ([], style) => format!(" [{style}]"),
        (label, "") => format!(" [label={}]", quoted(label)),
        (label, style) => format!(" [label={}, {style}]", quoted(label)),
    }
}

fn name(target: Target) -> String {
    match target {
        Target::Step(index) => format!("s{index}"),
        Target::Done => "done".to_owned(),
        Target::Unknown => "unknown".to_owned(),
    }
}

fn shape(shape: Shape) -> &'static str {
    match shape {
        Shape::Operation | Shape::Session => "shape=box",
        Shape::Delegate => "shape=box, peripheries=2",
        Shape::Transform => "shape=parallelogram",
        Shape::Branch => "shape=diamond",
        Shape::Parallel => "shape=hexagon",
        Shape::Exit => "shape=octagon",
        Shape::Wait => "shape=house",
    }
}

/// A quoted string: only quotes and backslashes mean something in it.
fn quoted(lines: &[String]) -> String {
    let lines =
        lines.iter().map(|line| printable(line).replace(['\n', '\t'], " ").replace('\\', "\\\\").replace('"', "\\\""));
    format!("\"{}\"", lines.collect::<Vec<_>>().join("\\n"))
}
