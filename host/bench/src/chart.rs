//! The table as a picture.

use super::{
    Report, Row,
    text::{cut, digits},
};
use anyhow::{Result, anyhow};
use plotters::prelude::{
    ChartBuilder, Circle, Color as _, IntoDrawingArea as _, IntoFont as _, IntoLogRange as _, PathElement, RGBColor,
    SVGBackend, Text, TextStyle, WHITE,
};
use plotters::style::{
    BLACK,
    text_anchor::{HPos, Pos, VPos},
};

const CELL: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const OTHERS: RGBColor = RGBColor(0x6b, 0x72, 0x80);

/// Width of the picture, and of the columns beside the plot: names before it, figures after it.
const WIDTH: u32 = 900;
const NAMES: u32 = 150;
const FIGURES: u32 = 170;
const ROW: u32 = 30;

/// Letters of a line of eleven pixels.
const LINE: usize = 140;

/// The offset, within their column, at which the numbers of calls begin.
const CALLS: i32 = 80;

/// Letters of a name that fit into its column.
const NAME_COLUMN_CHARS: usize = 20;

/// An SVG with one line per row, from the fastest, on a logarithmic scale: a dot at the median, a thick line from the
/// 25th to the 75th percentile, a thin one to the 99th. It names what was measured, where, when, and how many calls
/// each row stands on.
///
/// # Errors
/// When the chart has no rows.
pub fn chart(report: &Report) -> Result<String> {
    let title = format!("{} of {}, {} bytes of arguments", report.operation, report.guest, report.argument_bytes);
    let machine = &report.machine;
    let where_and_when = format!(
        "{}, {} cores, {}; {}; opcell {}, wasmtime {}",
        machine.cpu, machine.cores, machine.system, machine.date, report.origin.opcell, report.origin.wasmtime
    );
    let noise = lines(&report.noise, LINE);
    let mut texts = vec![title.as_str(), where_and_when.as_str()];
    texts.extend(noise.iter().map(String::as_str));
    drawn(&texts, &report.rows)
}

/// A text in lines of at most this many letters.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match found.last_mut().filter(|line| line.chars().count() + word.chars().count() < most) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => found.push(word.to_owned()),
        }
    }
    found
}

fn drawn(texts: &[&str], rows: &[Row]) -> Result<String> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| b.median_us.total_cmp(&a.median_us));
    let least = rows.iter().map(|row| row.p25_us).fold(f64::INFINITY, f64::min) / 1.5;
    let most = rows.iter().map(|row| row.p99_us).fold(0.0, f64::max) * 1.5;
    if !(least.is_finite() && least > 0.0 && most > least) {
        return Err(anyhow!("the chart has no rows"));
    }
    let mut svg = String::new();
    draw(&mut svg, texts, &rows, least, most).map_err(|error| anyhow!("the chart cannot be drawn: {error}"))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    texts: &[&str],
    rows: &[&Row],
    least: f64,
    most: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let head = 14 + 18 * u32::try_from(texts.len())?;
    let plot = ROW * u32::try_from(rows.len())?;
    let area = SVGBackend::with_string(svg, (WIDTH, head + plot + 56)).into_drawing_area();
    area.fill(&WHITE)?;
    for (at, text) in texts.iter().enumerate() {
        let size = if at == 0 { 16.0 } else { 11.0 };
        let text = cut(text, if at == 0 { 100 } else { LINE + 10 });
        area.draw(&Text::new(text, (14, 10 + 18 * i32::try_from(at)?), style(size, &BLACK)))?;
    }
    let (_, body) = area.split_vertically(head);
    let (names, rest) = body.split_horizontally(NAMES);
    let (plotted, figures) = rest.split_horizontally(WIDTH - NAMES - FIGURES);
    let mut chart = ChartBuilder::on(&plotted)
        .margin_top(6)
        .x_label_area_size(50)
        .build_cartesian_2d((least..most).log_scale(), 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("microseconds per call: dot, median; thick, 25th to 75th percentile; thin, to the 99th")
        .x_label_formatter(&|value| digits(*value))
        .label_style(style(11.0, &BLACK))
        .draw()?;
    let middle = Pos::new(HPos::Left, VPos::Center);
    for (at, row) in rows.iter().enumerate() {
        let height = at as f64 + 0.5;
        let color = if row.name == "cell" { CELL } else { OTHERS };
        let line =
            |from: f64, to: f64, width| PathElement::new([(from, height), (to, height)], color.stroke_width(width));
        chart.draw_series([line(row.p25_us, row.p99_us, 1), line(row.p25_us, row.p75_us, 5)])?;
        chart.draw_series([Circle::new((row.median_us, height), 4, color.filled())])?;
        let from_top =
            6 + i32::try_from(plot - 6)? - (ROW as f64 * height * f64::from(plot - 6) / f64::from(plot)) as i32;
        let place = |text: String, x: i32| Text::new(text, (x, from_top), style(12.0, &color).pos(middle));
        names.draw(&place(cut(&row.name, NAME_COLUMN_CHARS), 14))?;
        figures.draw(&place(format!("{} µs", digits(row.median_us)), 10))?;
        figures.draw(&place(format!("n = {}", row.calls), CALLS))?;
    }
    area.present()?;
    Ok(())
}

fn style(size: f64, color: &RGBColor) -> TextStyle<'_> {
    TextStyle::from(("sans-serif", size).into_font()).color(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, median_us: f64) -> Row {
        Row { median_us, p25_us: median_us, p75_us: median_us, p99_us: median_us * 2.0, ..Row::named(name) }
    }

    #[test]
    fn every_row_is_drawn_with_its_figures_and_the_head_says_where_and_when() {
        let rows = [row("native", 0.5), row("cell", 15.0), row("node-worker", 19_164.2)];
        let svg = drawn(&["An echo", "a machine; 2026-01-01"], &rows).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["An echo", "2026-01-01", "native", "0.50 µs", "15.0 µs", "19164 µs", "n = 0"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(drawn(&["nothing"], &[]).is_err());
    }

    #[test]
    fn a_long_text_is_broken_between_words() {
        assert_eq!(lines("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(lines("", 9), Vec::<String>::new());
    }

    #[test]
    fn no_text_leaves_the_picture() {
        let long = "a-peer-with-a-name-that-no-column-holds-in-any-picture".repeat(4);
        let svg = drawn(&[&long, &long], &[row(&long, 1.0), row("cell", 9.9e9)]).unwrap();
        let texts =
            regex::Regex::new(r#"<text x="(\d+)"[^>]*font-size="([\d.]+)"[^>]*>\s*([^<]*?)\s*</text>"#).unwrap();
        let mut seen = 0;
        for text in texts.captures_iter(&svg).filter(|text| !text[0].contains("middle")) {
            let (x, size): (f64, f64) = (text[1].parse().unwrap(), text[2].parse().unwrap());
            let end = x + text[3].chars().count() as f64 * size * 0.62;
            assert!(end <= f64::from(WIDTH), "{:?} ends at {end}", &text[3]);
            seen += 1;
        }
        assert!(seen >= 6, "{seen} texts in {svg}");
    }
}
