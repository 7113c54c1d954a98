//! The figures of a report as pictures: latency by percentile, cost by phase, memory by number of cells, throughput by
//! threads.

use super::{
    Report,
    peer::CELL as CELL_ROW,
    text::{cut, digits},
};
use anyhow::{Result, anyhow};
use plotters::{
    coord::Shift,
    prelude::{
        ChartBuilder, Circle, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, IntoLogRange as _,
        PathElement, RGBColor, Rectangle, SVGBackend, Text, TextStyle, WHITE,
    },
    style::BLACK,
};

const SIZE: (u32, u32) = (760, 420);
/// The least height; texts beside a plot need no less.
const BARS_HEIGHT: u32 = 200;
const CELL: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
/// Told apart on paper and by most people who see few colours; a cell is always the first one.
const COLORS: [RGBColor; 12] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x8c, 0x6d, 0x31),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x6b, 0x72, 0x80),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x7b, 0x3f, 0xa0),
    RGBColor(0xa6, 0x1c, 0x3c),
    RGBColor(0x9a, 0xcd, 0x32),
    RGBColor(0xb0, 0xb7, 0xc3),
];

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Every picture that the report has figures for, by file name.
///
/// # Errors
/// When one cannot be drawn.
pub fn plots(report: &Report) -> Result<Vec<(&'static str, String)>> {
    let machine = &report.machine;
    let about = format!("{}, {} cores; {}; {}", machine.cpu, machine.cores, machine.date, report.operation);
    let mut found = Vec::new();
    let latency = latency(report);
    if latency.iter().any(|line| line.points.len() > 1) {
        let titles = ["How long calls take, by percentile", about.as_str()];
        found.push(("latency.svg", picture(SIZE, &titles, |area| distribution(area, &latency))?));
    }
    if let Some(parts) = phases(report) {
        let titles = ["What a call of a cell is made of", about.as_str()];
        found.push((
            "phases.svg",
            picture((SIZE.0, BARS_HEIGHT + 30 * u32::try_from(parts.len())?), &titles, |area| bars(area, &parts))?,
        ));
    }
    let memory = &report.figures.memory_by_cells;
    if memory.len() > 1 {
        let points = memory.iter().map(|at| (at.cells as f64, at.kib as f64)).collect();
        let line = [Line { name: "cells that wait for their host".to_owned(), color: CELL, points }];
        let titles = ["Resident memory by number of cells", about.as_str()];
        found.push(("memory.svg", picture(SIZE, &titles, |area| curve(area, &line, "cells at once", "KiB"))?));
    }
    let by_threads = &report.figures.throughput.by_threads;
    if by_threads.len() > 1 {
        let points = by_threads.iter().map(|at| (at.threads as f64, at.cells_per_second)).collect();
        let line = [Line { name: "cells".to_owned(), color: CELL, points }];
        let titles = ["Cells per second by threads", about.as_str()];
        found.push((
            "throughput.svg",
            picture(SIZE, &titles, |area| curve(area, &line, "threads", "cells per second"))?,
        ));
    }
    Ok(found)
}

struct Line {
    name: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

fn latency(report: &Report) -> Vec<Line> {
    let mut others = COLORS.iter().cycle();
    let line = |row: &super::Row| Line {
        name: row.name.clone(),
        color: if row.name == "cell" { CELL } else { others.next().copied().unwrap_or(BLACK) },
        points: row.quantiles.iter().map(|at| (at.us, at.share * 100.0)).filter(|(us, _)| *us > 0.0).collect(),
    };
    report.rows.iter().map(line).collect()
}

/// The parts of a cell's median, in microseconds: those of the engine, and what the cell adds.
fn phases(report: &Report) -> Option<Vec<(&'static str, f64)>> {
    if let Some(profile) = &report.profile {
        return Some(profile.parts.iter().map(|part| (part.name, part.us)).collect());
    }
    let phases = report.figures.phases.as_ref()?;
    let cell = report.rows.iter().find(|row| row.name == CELL_ROW)?.median_us;
    let of_engine = phases.instantiate_us + phases.call_us + phases.drop_us;
    let mut parts = vec![("instantiate", phases.instantiate_us), ("call", phases.call_us), ("drop", phases.drop_us)];
    parts.push(("what the cell adds", (cell - of_engine).max(0.0)));
    Some(parts)
}

fn picture(size: (u32, u32), titles: &[&str], draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    let drawn = (|| -> Drawn {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (at, text) in titles.iter().enumerate() {
            let letters = if at == 0 { 16.0 } else { 11.0 };
            area.draw(&Text::new(cut(text, 120), (14, 10 + 20 * i32::try_from(at)?), style(letters, &BLACK)))?;
        }
        let (_, body) = area.split_vertically(54);
        draw(&body)?;
        Ok(area.present()?)
    })();
    drawn.map_err(|error| anyhow!("the plot cannot be drawn: {error}"))?;
    Ok(svg)
}

/// One line for each peer on a logarithmic scale, and beside them their names.
fn distribution(area: &Area<'_>, lines: &[Line]) -> Drawn {
    let (plot, legend) = area.split_horizontally(SIZE.0 - 170);
    let all = || lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(&plot)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(46)
        .build_cartesian_2d((least / 1.3..most * 1.3).log_scale(), 0.0..100.0)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc("microseconds, logarithmic")
        .y_desc("per cent of calls within that time")
        .x_label_formatter(&|value| digits(*value))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(style(11.0, &BLACK))
        .draw()?;
    for line in lines {
        let width = if line.color == CELL { 3 } else { 2 };
        chart.draw_series([PathElement::new(line.points.clone(), line.color.stroke_width(width))])?;
    }
    for (at, line) in lines.iter().enumerate() {
        let y = 14 + 18 * i32::try_from(at)?;
        legend.draw(&PathElement::new([(4, y + 6), (24, y + 6)], line.color.stroke_width(3)))?;
        legend.draw(&Text::new(cut(&line.name, 18), (30, y), style(12.0, &BLACK)))?;
    }
    Ok(())
}

/// A line from nothing, with a dot and its figure at each place that was measured.
fn curve(area: &Area<'_>, lines: &[Line], x: &str, y: &str) -> Drawn {
    let all = || lines.iter().flat_map(|line| &line.points);
    let right = all().map(|point| point.0).fold(1.0, f64::max) * 1.1;
    let top = all().map(|point| point.1).fold(1.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&whole)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .label_style(style(11.0, &BLACK))
        .draw()?;
    for line in lines {
        chart.draw_series([PathElement::new(line.points.clone(), line.color.stroke_width(2))])?;
        chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 4, line.color.filled())))?;
        chart.draw_series(
            line.points.iter().map(|(x, y)| Text::new(digits(*y), (*x, *y + top * 0.05), style(11.0, &BLACK))),
        )?;
    }
    Ok(())
}

/// A count; nothing where a line of the mesh lies between two.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what the library calls it with")]
fn whole(value: &f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { String::new() }
}

/// Parts of a whole, one after the other, each with its figure below.
fn bars(area: &Area<'_>, parts: &[(&'static str, f64)]) -> Drawn {
    let all: f64 = parts.iter().map(|(_, us)| us).sum();
    let (from, width, mut x) = (20_i32, f64::from(SIZE.0 - 40), 20.0);
    for (at, (name, us)) in parts.iter().enumerate() {
        let color = if at + 1 == parts.len() { CELL } else { COLORS.get(at).copied().unwrap_or(BLACK) };
        let end = x + width * us / all.max(f64::MIN_POSITIVE);
        area.draw(&Rectangle::new([(x as i32, 20), (end as i32, 90)], color.filled()))?;
        let y = 116 + 30 * i32::try_from(at)?;
        area.draw(&Rectangle::new([(from, y), (from + 14, y + 14)], color.filled()))?;
        let share = us / all.max(f64::MIN_POSITIVE) * 100.0;
        area.draw(&Text::new(
            format!("{name}: {} µs, {share:.0} %", digits(*us)),
            (from + 24, y),
            style(13.0, &BLACK),
        ))?;
        x = end;
    }
    let y = 116 + 30 * i32::try_from(parts.len())?;
    area.draw(&Text::new(
        format!("together: {} µs, the median of a cell", digits(all)),
        (from + 24, y),
        style(13.0, &BLACK),
    ))?;
    Ok(())
}

fn style(size: f64, color: &RGBColor) -> TextStyle<'_> {
    TextStyle::from(("sans-serif", size).into_font()).color(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, color: RGBColor, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), color, points: points.to_vec() }
    }

    #[test]
    fn each_plot_has_its_lines_names_and_figures() {
        let lines = [
            line("cell", CELL, &[(8.0, 0.0), (9.0, 50.0), (40.0, 99.0)]),
            line("pipe", BLACK, &[(20.0, 0.0), (30.0, 99.0)]),
        ];
        let svg = picture(SIZE, &["Latency", "a machine"], |area| distribution(area, &lines)).unwrap();
        for text in ["Latency", "a machine", "cell", "pipe", "microseconds"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(svg.matches("<polyline").count() >= 2, "{svg}");
        let svg = picture(SIZE, &["Memory"], |area| curve(area, &lines[..1], "cells", "KiB")).unwrap();
        assert!(svg.matches("<circle").count() == 3 && svg.contains("KiB"), "{svg}");
        assert_eq!((whole(&2.0), whole(&2.5)), ("2".to_owned(), String::new()), "two marks with one label");
        let svg = picture(SIZE, &["Phases"], |area| bars(area, &[("call", 3.0), ("what the cell adds", 1.0)])).unwrap();
        for text in ["call: 3.00 µs, 75 %", "what the cell adds: 1.00 µs, 25 %", "together: 4.00 µs"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }
}
