//! The table as a picture.

use super::Row;
use anyhow::{Result, anyhow};
use plotters::prelude::{
    ChartBuilder, Color as _, IntoDrawingArea as _, IntoLogRange as _, RGBColor, Rectangle, SVGBackend, Text, WHITE,
};

const CELL: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const OTHERS: RGBColor = RGBColor(0xb0, 0xb7, 0xc0);

/// An SVG with one bar per row, from the fastest, on a logarithmic scale: a bar ends at the median, a thin line at the
/// 99th percentile.
///
/// # Errors
/// When the chart has no rows.
pub fn chart(title: &str, rows: &[Row]) -> Result<String> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| b.median_us.total_cmp(&a.median_us));
    let least = rows.iter().map(|row| row.median_us).fold(f64::INFINITY, f64::min) / 4.0;
    let most = rows.iter().map(|row| row.p99_us).fold(0.0, f64::max) * 8.0;
    if !(least.is_finite() && least > 0.0 && most > least) {
        return Err(anyhow!("the chart has no rows"));
    }
    let mut svg = String::new();
    draw(&mut svg, title, &rows, least, most).map_err(|error| anyhow!("the chart cannot be drawn: {error}"))?;
    Ok(svg)
}

fn draw(svg: &mut String, title: &str, rows: &[&Row], least: f64, most: f64) -> Result<(), Box<dyn std::error::Error>> {
    let height = 90 + 34 * u32::try_from(rows.len())?;
    let area = SVGBackend::with_string(svg, (860, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 17))
        .margin(14)
        .x_label_area_size(34)
        .y_label_area_size(10)
        .build_cartesian_2d((least..most).log_scale(), 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("microseconds per call, logarithmic")
        .x_label_formatter(&|value| format!("{value}"))
        .draw()?;
    for (at, row) in rows.iter().enumerate() {
        let bottom = at as f64;
        let color = if row.name == "cell" { CELL } else { OTHERS };
        chart.draw_series([
            Rectangle::new([(least, bottom + 0.15), (row.median_us, bottom + 0.85)], color.filled()),
            Rectangle::new([(row.median_us, bottom + 0.46), (row.p99_us, bottom + 0.54)], color.filled()),
        ])?;
        let label = format!("{}  {:.1} µs", row.name, row.median_us);
        chart.draw_series([Text::new(label, (row.p99_us * 1.1, bottom + 0.68), ("sans-serif", 13))])?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_drawn_and_nothing_else_is_needed_to_see_it() {
        let row = |name: &str, median_us: f64| Row {
            name: name.to_owned(),
            about: String::new(),
            calls: 1,
            median_us,
            p25_us: median_us,
            p75_us: median_us,
            p99_us: median_us * 2.0,
            min_us: median_us,
            times_a_cell: 1.0,
            round_spread_percent: 0.0,
        };
        let svg = chart("An echo", &[row("native", 0.5), row("cell", 15.0), row("process", 900.0)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["An echo", "native  0.5 µs", "cell  15.0 µs", "process  900.0 µs"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(chart("nothing", &[]).is_err());
    }
}
