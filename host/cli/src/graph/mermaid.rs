//! Mermaid text, which code hosts and editors draw.

use super::{Drawing, Mark, Node, Shape, TONES, Target};
use opcell::report::printable;
use std::fmt::Write as _;

impl Drawing {
    /// A Mermaid flowchart: what a step executes shows in its shape, the way of a run in thick lines.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart TD\n  start((start))\n".to_owned();
        for (index, node) in self.nodes.iter().enumerate() {
            let (open, close) = brackets(node.shape);
            let class = class(node).map(|class| format!(":::{class}")).unwrap_or_default();
            let _ = writeln!(text, "  s{index}{open}\"{}\"{close}{class}", joined(&node.lines));
        }
        text.push_str("  done([done])\n");
        if self.has_unknown() {
            text.push_str("  unknown[\"unknown step\"]\n");
        }
        let line = if self.is_started() { "==>" } else { "-->" };
        let _ = writeln!(text, "  start {line} {}", name(Target::Step(self.entry)));
        for edge in &self.edges {
            let line = if edge.is_taken() { "==>" } else { "-->" };
            let label = edge.label();
            let label = if label.is_empty() { String::new() } else { format!("|\"{}\"|", joined(&label)) };
            let _ = writeln!(text, "  s{} {line}{label} {}", edge.from, name(edge.to));
        }
        if self.nodes.iter().any(|node| node.visits.is_some()) {
            for tone in TONES.iter().skip(1) {
                let dashes =
                    if tone.dashes.is_empty() { String::new() } else { format!(",stroke-dasharray:{}", tone.dashes) };
                let _ = writeln!(
                    text,
                    "  classDef {} fill:#{:06x},stroke:#{:06x}{dashes}",
                    tone.name, tone.fill, tone.line
                );
            }
        }
        text
    }
}

fn name(target: Target) -> String {
    match target {
        Target::Step(index) => format!("s{index}"),
        Target::Done => "done".to_owned(),
        Target::Unknown => "unknown".to_owned(),
    }
}

fn class(node: &Node) -> Option<&'static str> {
    (node.mark != Mark::Plain).then(|| node.mark.tone().name)
}

fn brackets(shape: Shape) -> (&'static str, &'static str) {
    match shape {
        Shape::Operation => ("[", "]"),
        Shape::Session => ("(", ")"),
        Shape::Delegate => ("[[", "]]"),
        Shape::Transform => ("[/", "/]"),
        Shape::Branch => ("{", "}"),
        Shape::Parallel => ("{{", "}}"),
        Shape::Exit => ("([", "])"),
        Shape::Wait => ("[\\", "\\]"),
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| label(line)).collect::<Vec<_>>().join("<br/>")
}

/// Text that ends no label, in Mermaid's own entities.
fn label(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '#' => escaped.push_str("#35;"),
            '"' => escaped.push_str("#quot;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '\n' | '\t' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
