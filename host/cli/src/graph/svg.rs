//! SVG, laid out by `layout-rs` and drawn on our [`Canvas`].

use super::{
    Drawing, Edge, Mark, Node, Shape, Target,
    canvas::{Canvas, FONT, LOOP},
    merged,
};
use layout::{
    core::{base::Orientation, color::Color, style::StyleAttr},
    std_shapes::shapes::{Arrow, Element, ShapeKind},
    topo::layout::VisualGraph,
};
use opcell::report::printable;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of a picture that a person can still take in, and that the layout places within seconds.
const MAX_NODES: usize = 400;

/// A label's line is cut here, so that one long name does not push everything else off the picture.
const MAX_LINE: usize = 60;

/// A workflow that makes no SVG.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undrawable {
    /// Too much for one picture.
    #[error("the workflow has {0} steps; SVG is limited to {MAX_NODES}; use Mermaid or DOT")]
    TooLarge(usize),
    /// The layout gave up.
    #[error("the layout library cannot lay out this workflow; use Mermaid or DOT")]
    Layout,
}

impl Drawing {
    /// A picture as SVG.
    ///
    /// # Errors
    /// When there is too much to draw, or the library cannot.
    pub fn svg(&self) -> Result<String, Undrawable> {
        if self.nodes.len() > MAX_NODES {
            return Err(Undrawable::TooLarge(self.nodes.len()));
        }
        // The library asserts where a layout does not work out; a picture is not worth a crash.
        catch_unwind(AssertUnwindSafe(|| self.draw())).map_err(|_| Undrawable::Layout)
    }

    fn draw(&self) -> String {
        let mut graph = VisualGraph::new(Orientation::TopToBottom);
        let start = graph.add_node(element(ShapeKind::new_circle("start"), style(Mark::Plain, 0)));
        let steps: Vec<_> = self.nodes.iter().map(|node| graph.add_node(step(node))).collect();
        let done = graph.add_node(element(ShapeKind::new_circle("done"), style(Mark::Plain, 0)));
        let unknown = self
            .has_unknown()
            .then(|| graph.add_node(element(ShapeKind::new_box("unknown step"), style(Mark::Failed, 0))));
        let handle = |target: Target| match target {
            Target::Step(index) => steps.get(index).copied(),
            Target::Done => Some(done),
            Target::Unknown => unknown,
        };
        if let Some(entry) = handle(Target::Step(self.entry)) {
            graph.add_edge(arrow("", self.is_started()), start, entry);
        }
        // The library turns around whatever would close a circle: what leads forward comes first, so that it stays
        // forward.
        let mut edges = merged(&self.edges);
        edges.sort_by_key(|(from, to, _)| matches!(to, Target::Step(to) if to <= from));
        for (from, to, several) in edges {
            let (Some(from), Some(to)) = (handle(Target::Step(from)), handle(to)) else { continue };
            let label: Vec<String> = together(&several).iter().map(|line| shown(line)).collect();
            let mut arrow = arrow(&label.join("\n"), several.iter().any(|edge| edge.is_taken()));
            arrow.properties = (from == to).then(|| LOOP.to_owned());
            graph.add_edge(arrow, from, to);
        }
        let mut canvas = Canvas::default();
        graph.do_it(false, false, false, &mut canvas);
        canvas.finish()
    }
}

fn step(node: &Node) -> Element {
    let lines: Vec<String> = node.lines.iter().map(|line| shown(line)).collect();
    let visits =
        node.visits.filter(|visits| *visits > 1).map(|visits| format!("\n{visits} visits")).unwrap_or_default();
    let mark = node.mark.word().map(|word| format!("\n{word}")).unwrap_or_default();
    let text = format!("{}{visits}{mark}", lines.join("\n"));
    let rounded = if matches!(node.shape, Shape::Session | Shape::Exit | Shape::Wait) { 12 } else { 0 };
    let kind = match node.shape {
        Shape::Branch | Shape::Parallel => ShapeKind::new_circle(&text),
        _ => ShapeKind::new_box(&text),
    };
    element(kind, style(node.mark, rounded))
}

fn element(kind: ShapeKind, look: StyleAttr) -> Element {
    let size = layout::std_shapes::render::get_shape_size(Orientation::TopToBottom, &kind, FONT, false);
    Element::create(kind, look, Orientation::TopToBottom, size)
}

fn style(mark: Mark, rounded: usize) -> StyleAttr {
    let tone = mark.tone();
    let width = if mark == Mark::Failed { 2 } else { 1 };
    StyleAttr::new(opaque(tone.line), width, Some(opaque(tone.fill)), rounded, FONT)
}

fn opaque(color: u32) -> Color {
    Color::new(color << 8 | 0xff)
}

fn arrow(label: &str, taken: bool) -> Arrow {
    let (mark, width) = if taken { (Mark::Done, 3) } else { (Mark::Plain, 1) };
    Arrow {
        text: label.to_owned(),
        look: StyleAttr::new(opaque(mark.tone().line), width, Some(Color::new(0xffff_ffff)), 0, FONT - 2),
        ..Arrow::default()
    }
}

/// One line of at most [`MAX_LINE`] characters.
fn shown(text: &str) -> String {
    let text = printable(text).replace(['\n', '\t'], " ");
    match text.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// The labels of several edges between the same steps: outcomes that are decided and bounded alike share one.
pub(super) fn together(edges: &[&Edge]) -> Vec<String> {
    let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for edge in edges {
        let mut rest = edge.label();
        if rest.is_empty() {
            continue;
        }
        let outcome = rest.remove(0);
        match groups.iter_mut().find(|(_, known)| *known == rest) {
            Some((outcomes, _)) => outcomes.push(outcome),
            None => groups.push((vec![outcome], rest)),
        }
    }
    let labels = groups.into_iter().map(|(outcomes, rest)| {
        let label: Vec<String> = std::iter::once(outcomes.join(" or ")).chain(rest).collect();
        label
    });
    // An empty line between them: two labels, not one text.
    labels.reduce(|before, label| [before, vec![String::new()], label].concat()).unwrap_or_default()
}
