//! The canvas that the layout library draws on: plain SVG that every viewer shows alike.

use super::{TONES, Tone};
use layout::core::{
    color::Color,
    format::{ClipHandle, RenderBackend},
    geometry::Point,
    style::StyleAttr,
};
use std::fmt::Write as _;

/// Space around the picture.
const MARGIN: f64 = 10.0;

/// About how wide a letter is, as a part of its height.
const LETTER: f64 = 0.6;

/// The size of letters in steps.
pub(super) const FONT: usize = 14;

/// The mark of an edge that leads back to the step that it comes from: the library has no curve for it.
pub(super) const LOOP: &str = "loop";

/// The distance between the two ends of a loop at its step, and the width of its bulge.
const LOOP_GAP: f64 = 16.0;
const LOOP_BULGE: f64 = 36.0;

/// The space between a label and the line that it names.
const LABEL_GAP: f64 = 3.0;

/// Collects a picture. Texts come last, so that no line crosses them out.
#[derive(Default)]
pub(super) struct Canvas {
    shapes: String,
    texts: String,
    size: (f64, f64),
    left: f64,
    /// The middle of each label, and half of its width. The library draws them before the lines.
    labels: Vec<(Point, f64)>,
}

impl Canvas {
    pub(super) fn finish(self) -> String {
        let (left, width, height) = (self.left - MARGIN, self.size.0 - self.left + 2.0 * MARGIN, self.size.1 + MARGIN);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"{left:.0} 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" text-anchor=\"middle\">\n{}\
             <rect class=\"paper\" x=\"{left:.0}\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}{}</svg>\n",
            dark_style(),
            self.shapes,
            self.texts
        )
    }

    fn reach(&mut self, x: f64, y: f64) {
        self.size = (self.size.0.max(x), self.size.1.max(y));
        self.left = self.left.min(x);
    }

    fn lines(&mut self, at: Point, text: &str, size: usize) {
        let is_label = size != FONT;
        #[expect(clippy::cast_precision_loss, reason = "a label's lines and letters are few")]
        let (size, lines, letters) = (
            size as f64,
            text.lines().count() as f64,
            text.lines().map(|line| line.chars().count()).max().unwrap_or(0) as f64,
        );
        let half = letters * size * LETTER / 2.0;
        self.reach(at.x + half, at.y + lines * size);
        self.reach(at.x - half, at.y);
        if is_label && letters > 0.0 {
            self.labels.push((at, half));
            // The line has a gap for its label, and does not cross it out.
            let _ = writeln!(
                self.texts,
                "<rect class=\"paper\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"white\"/>",
                at.x - half - LABEL_GAP,
                at.y - lines * size * 0.6 - LABEL_GAP,
                2.0 * (half + LABEL_GAP),
                lines * size * 1.2 + 2.0 * LABEL_GAP
            );
        }
        let mut baseline = at.y - lines * size * 0.6 + size * 0.95;
        for line in text.lines() {
            let (x, y, line) = (at.x, baseline, escaped(line));
            let _ = writeln!(self.texts, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\">{line}</text>");
            baseline += size * 1.2;
        }
    }
}

impl RenderBackend for Canvas {
    fn draw_rect(&mut self, at: Point, size: Point, look: &StyleAttr, _: Option<String>, _: Option<ClipHandle>) {
        self.reach(at.x + size.x, at.y + size.y);
        let _ = writeln!(
            self.shapes,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{}\" {}/>",
            at.x,
            at.y,
            size.x,
            size.y,
            look.rounded,
            paint(look)
        );
    }

    fn draw_line(&mut self, start: Point, stop: Point, look: &StyleAttr, _: Option<String>) {
        let _ = writeln!(
            self.shapes,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {}/>",
            start.x,
            start.y,
            stop.x,
            stop.y,
            paint(look)
        );
    }

    fn draw_circle(&mut self, at: Point, size: Point, look: &StyleAttr, _: Option<String>) {
        self.reach(at.x + size.x / 2.0, at.y + size.y / 2.0);
        let _ = writeln!(
            self.shapes,
            "<ellipse cx=\"{:.1}\" cy=\"{:.1}\" rx=\"{:.1}\" ry=\"{:.1}\" {}/>",
            at.x,
            at.y,
            size.x / 2.0,
            size.y / 2.0,
            paint(look)
        );
    }

    fn draw_text(&mut self, at: Point, text: &str, look: &StyleAttr) {
        // The library gives labels of long edges a size of its own.
        let size = if look.font_size == FONT { FONT } else { FONT - 2 };
        self.lines(at, text, size);
    }

    fn draw_arrow(
        &mut self,
        path: &[(Point, Point)],
        _dashed: bool,
        head: (bool, bool),
        look: &StyleAttr,
        properties: Option<String>,
        _text: &str,
    ) {
        let Some(((first, leave), rest)) = path.split_first() else { return };
        if let (Some(LOOP), [(_, label), .., (_, border)]) = (properties.as_deref(), rest) {
            let is_its = |(at, _): &&(Point, f64)| (at.x - label.x).abs() < 1.0 && (at.y - border.y).abs() < LOOP_BULGE;
            let half = self.labels.iter().find(is_its).map_or(0.0, |(_, half)| *half);
            self.draw_loop(*border, (label.x, half), look);
            return;
        }
        let mut way = format!("M {:.1} {:.1} C {:.1} {:.1}", first.x, first.y, leave.x, leave.y);
        for (index, (control, end)) in rest.iter().enumerate() {
            let command = if index == 0 { "," } else { " S" };
            let _ = write!(way, "{command} {:.1} {:.1}, {:.1} {:.1}", control.x, control.y, end.x, end.y);
            self.reach(end.x, end.y);
        }
        let color = web(look.line_color);
        let _ = writeln!(
            self.shapes,
            "<path class=\"{}\" d=\"{way}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\"/>",
            class(look.line_color),
            look.line_width
        );
        if let (true, Some((control, end))) = (head.1, rest.last()) {
            self.head(*control, *end, look.line_color);
        }
        if head.0 {
            self.head(*leave, *first, look.line_color);
        }
    }

    fn create_clip(&mut self, _: Point, _: Point, _: usize) -> ClipHandle {
        0
    }
}

impl Canvas {
    /// A loop that leaves a step at its border, turns before its label, and comes back below. The label has its middle
    /// and half of its width.
    fn draw_loop(&mut self, border: Point, (label, half): (f64, f64), look: &StyleAttr) {
        let (above, below) = (border.y - LOOP_GAP / 2.0, border.y + LOOP_GAP / 2.0);
        // The label is left or right of the step.
        let end = label + (half + 2.0 * LABEL_GAP) * (border.x - label).signum();
        // Half of the way along it, a curve has come three quarters of the way to its controls.
        let turn = border.x + (end - border.x) / 0.75;
        let control = Point::new(turn, border.y + LOOP_BULGE);
        let color = web(look.line_color);
        let _ = writeln!(
            self.shapes,
            "<path class=\"{}\" d=\"M {x:.1} {above:.1} C {turn:.1} {:.1}, {turn:.1} {:.1}, {x:.1} {below:.1}\" fill=\"none\" \
             stroke=\"{color}\" stroke-width=\"{}\"/>",
            class(look.line_color),
            border.y - LOOP_BULGE,
            control.y,
            look.line_width,
            x = border.x,
        );
        self.head(control, Point::new(border.x, below), look.line_color);
    }

    /// An arrow's head at the end of a line that comes from `control`.
    fn head(&mut self, control: Point, end: Point, color: Color) {
        let (dx, dy) = (end.x - control.x, end.y - control.y);
        let length = dx.hypot(dy).max(f64::EPSILON);
        let (dx, dy) = (dx / length * 9.0, dy / length * 9.0);
        let _ = writeln!(
            self.shapes,
            "<path class=\"head {}\" d=\"M {:.1} {:.1} L {:.1} {:.1} L {:.1} {:.1} Z\" fill=\"{}\"/>",
            class(color),
            end.x,
            end.y,
            end.x - dx - dy * 0.45,
            end.y - dy + dx * 0.45,
            end.x - dx + dy * 0.45,
            end.y - dy - dx * 0.45,
            web(color)
        );
    }
}

fn paint(look: &StyleAttr) -> String {
    let fill = look.fill_color.map_or_else(|| "none".to_owned(), web);
    let dashes = tone(look.line_color).dashes;
    let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
    format!(
        "class=\"box {}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"{}\"{dashes}",
        class(look.line_color),
        web(look.line_color),
        look.line_width
    )
}

/// The colours for readers who prefer dark pages. A viewer that knows no styles shows those of the attributes.
fn dark_style() -> String {
    let mut style =
        "<style>@media (prefers-color-scheme: dark) { .paper { fill: #14171b } text { fill: #e6e9ee }".to_owned();
    for Tone { name, dark_line, dark_fill, .. } in &TONES {
        let _ = write!(
            style,
            " .{name} {{ stroke: #{dark_line:06x} }} .box.{name} {{ fill: #{dark_fill:06x} }} \
             .head.{name} {{ fill: #{dark_line:06x}; stroke: none }}"
        );
    }
    style + " }</style>\n"
}

/// The tone whose line has this colour.
fn tone(line: Color) -> &'static Tone {
    let line = web(line);
    TONES.iter().find(|tone| format!("#{:06x}", tone.line) == line).unwrap_or(&TONES[0])
}

fn class(line: Color) -> &'static str {
    tone(line).name
}

/// `#rrggbb`: not every viewer knows a colour with four parts.
fn web(color: Color) -> String {
    let mut text = color.to_web_color();
    text.truncate(7);
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
