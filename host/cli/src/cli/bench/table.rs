//! Reports of `opcell bench` as tables.

use crate::{
    bench::{Profile, Report, compare::Comparison, contain, cut, digits, peer::Isolates},
    cli::Terminal,
};

/// Two reports side by side.
pub fn comparison(comparison: &Comparison, terminal: &Terminal) -> std::io::Result<()> {
    let width = comparison.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    terminal.line(&format!(
        "{:width$} {:>12} {:>12} {:>8} {:>16}",
        "", "before us", "after us", "ratio", "95 % of ratios"
    ))?;
    for row in &comparison.rows {
        let interval = row.interval.map_or_else(|| "-".to_owned(), |of| format!("{:.3}-{:.3}", of.low, of.high));
        terminal.line(&format!(
            "{:width$} {:>12} {:>12} {:>8.3} {interval:>16}  {}",
            row.name,
            digits(row.before_us),
            digits(row.after_us),
            row.ratio,
            row.verdict.as_str()
        ))?;
    }
    for name in &comparison.only_in_one {
        terminal.line(&format!("{name} is in one of the reports only"))?;
    }
    for different in &comparison.different {
        terminal.note(&format!("the reports differ in {different}"));
    }
    Ok(())
}

/// Prints the measurements of one run.
pub fn report(report: &Report, terminal: &Terminal) -> std::io::Result<()> {
    let width = report.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    terminal.line(&format!(
        "{:width$} {:>10} {:>15} {:>15} {:>10} {:>9} {:>8}",
        "", "median us", "95 % of medians", "p25-p75 us", "p99 us", "x a cell", "calls"
    ))?;
    for row in &report.rows {
        let spread = format!("{}-{}", digits(row.p25_us), digits(row.p75_us));
        let interval = row.median_interval_us;
        let interval = interval.map_or_else(|| "-".to_owned(), |of| format!("{}-{}", digits(of.low), digits(of.high)));
        terminal.line(&format!(
            "{:width$} {:>10} {interval:>15} {spread:>15} {:>10} {:>9} {:>8}",
            row.name,
            digits(row.median_us),
            digits(row.p99_us),
            digits(row.times_a_cell),
            row.calls
        ))?;
    }
    terminal.line("")?;
    let parts: String = Isolates::ALL.iter().map(|part| format!(" {:>7}", part.name())).collect();
    terminal.line(&format!("{:width$}{parts}   (apart from other calls and from the host)", "isolates"))?;
    for row in &report.rows {
        let holds = |part: &Isolates| match &row.isolates {
            Some(parts) if parts.contains(part) => "yes",
            Some(_) => "-",
            None => "?",
        };
        let parts: String = Isolates::ALL.iter().map(|part| format!(" {:>7}", holds(part))).collect();
        terminal.line(&format!("{:width$}{parts}", row.name))?;
    }
    let figures = &report.figures;
    terminal.line("")?;
    terminal.line(&format!("cold compile and load   {:>10.2} ms", figures.cold_compile_ms))?;
    terminal.line(&format!("warm load               {:>10.2} ms", figures.warm_load_ms))?;
    if let Some(phases) = &figures.phases {
        terminal.line(&format!(
            "engine, phase by phase  {:>10.2} us instantiate, {:.2} us call, {:.2} us drop",
            phases.instantiate_us, phases.call_us, phases.drop_us
        ))?;
    }
    terminal.line(&format!("call of the host        {:>10.0} ns", figures.host_call_ns))?;
    terminal.line(&format!("each waiting cell       {:>10} KiB", figures.kib_per_waiting_cell))?;
    terminal.line(&format!("each loaded plugin      {:>10} KiB", figures.kib_per_loaded_plugin))?;
    let throughput = &figures.throughput;
    terminal.line(&format!(
        "cells per second        {:>10.0} on one core, {:.0} on {}",
        throughput.cells_per_second_one_core, throughput.cells_per_second_all_cores, throughput.cores
    ))?;
    for rate in &throughput.others {
        terminal.line(&format!(
            "{:23} {:>10.0} per second on one core, {:.0} on {}",
            rate.name, rate.per_second_one_core, rate.per_second_all_cores, throughput.cores
        ))?;
    }
    let bare = throughput.bare_all_cores_to_one.map(|ratio| format!(", the bare engine {ratio:.2}"));
    terminal.line(&format!(
        "all cores to one        {:>10.2}{}, a native function {:.2}",
        throughput.cells_per_second_all_cores / throughput.cells_per_second_one_core,
        bare.unwrap_or_default(),
        throughput.native_all_cores_to_one
    ))?;
    if let Some(profile) = &report.profile {
        self::profile(profile, terminal)?;
    }
    for size in &report.sizes {
        let row = |row: &crate::bench::SizeRow| format!("{} {} us", row.name, digits(row.median_us));
        let rows: Vec<String> = size.rows.iter().map(row).collect();
        terminal.line(&format!("{:>9} bytes: {}", size.argument_bytes, rows.join(", ")))?;
    }
    terminal.line("")?;
    terminal.line(&format!("{}, {} cores, {}", report.machine.cpu, report.machine.cores, report.machine.system))?;
    terminal.line(&report.noise)?;
    for note in &report.notes {
        terminal.line(note)?;
    }
    Ok(())
}

/// Functions of a profile that a table shows; the report has more.
const FUNCTIONS: usize = 12;

fn profile(profile: &Profile, terminal: &Terminal) -> std::io::Result<()> {
    let all: f64 = profile.parts.iter().map(|part| part.us).sum();
    let width = profile.parts.iter().map(|part| part.name.len()).max().unwrap_or(0);
    terminal.line("")?;
    terminal.line("where the time of a cell goes")?;
    for part in &profile.parts {
        let percent = part.us / all.max(f64::MIN_POSITIVE) * 100.0;
        terminal.line(&format!("{:width$} {:>8} us {percent:>4.0} %  {}", part.name, digits(part.us), part.of))?;
    }
    let Some(sampled) = &profile.sampled else { return Ok(()) };
    terminal.line("")?;
    let owners = sampled.owners.iter().map(|owner| format!("{} {:.0} %", owner.name, owner.percent));
    let owners: Vec<String> = owners.collect();
    terminal.line(&format!("whose code runs, of {} samples: {}", sampled.samples, owners.join(", ")))?;
    let columns = terminal.width().unwrap_or(120).clamp(60, 160);
    for function in sampled.functions.iter().take(FUNCTIONS) {
        let owner = function.owner.unwrap_or_default();
        let name = cut(&function.name, columns.saturating_sub(27));
        terminal.line(&format!("{:>5.1} %  {owner:16}  {name}", function.percent))?;
    }
    Ok(())
}

pub fn containment(containment: &contain::Containment, terminal: &Terminal) -> std::io::Result<()> {
    let millis = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    terminal.line(&format!(
        "{:20} {:>12} {:>12} {:>12} {:>12}  stopped by",
        "", "deadline ms", "after ms", "overshoot", "worst"
    ))?;
    for row in &containment.rows {
        terminal.line(&format!(
            "{:20} {:>12} {:>12.2} {:>12} {:>12}  {}",
            row.name,
            millis(row.deadline_ms),
            row.stopped_after_ms,
            millis(row.late_ms),
            millis(row.worst_late_ms),
            row.by.join(", ")
        ))?;
    }
    terminal.line("")?;
    terminal.line(&format!(
        "{:24} {:>10} {:>10} {:>17} {:>10} {:>8}  failures",
        "an honest plugin", "median us", "p99 us", "95 % of p99", "call us", "calls"
    ))?;
    for row in &containment.neighbour {
        let interval = row.p99_interval_us;
        let interval =
            interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{}-{}", digits(low), digits(high)));
        terminal.line(&format!(
            "{:24} {:>10} {:>10} {interval:>17} {:>10} {:>8}  {}",
            format!("beside {}", row.beside),
            digits(row.median_us),
            digits(row.p99_us),
            digits(row.service_us),
            row.calls,
            row.failures
        ))?;
    }
    terminal.line(&containment.noise)
}
