//! The cost of more work, by factors of ten: `cargo xtask bench --scale`.
//!
//! `growth [--json] [--only GROUP,…] [--most N] [--directory DIRECTORY] [--opcell COMMAND]`. The `opcell` command is
//! expected beside this program, unless another is named. Each curve is drawn and named: flat, below linear, linear or
//! worse. Ends with 1 when one is worse.

use anyhow::{Context as _, Result, bail, ensure};
use opcell_benches::growth::{Curve, Growth, Setting, commands, in_journal, server};
use std::{path::PathBuf, process::ExitCode};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

/// The groups that can be measured by themselves.
const GROUPS: [&str; 6] = ["runs", "plugins", "steps", "tools", "questions", "tenants"];

/// The request.
struct Asked {
    json: bool,
    only: Option<Vec<String>>,
    setting: Setting,
}

impl Asked {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let opcell = std::env::current_exe()?.with_file_name("opcell");
        let setting = Setting { opcell, directory: std::env::temp_dir(), most: u64::MAX };
        let mut asked = Self { json: false, only: None, setting };
        while let Some(word) = words.next() {
            let mut next = |what: &str| words.next().with_context(|| format!("`{word}` needs {what}"));
            match word.as_str() {
                "--json" => asked.json = true,
                "--only" => asked.only = Some(next("groups")?.split(',').map(str::to_owned).collect()),
                "--most" => {
                    let number = next("a number")?;
                    asked.setting.most = number.parse().with_context(|| format!("`{number}` is not a number"))?;
                }
                "--directory" => asked.setting.directory = next("a directory")?.into(),
                "--opcell" => asked.setting.opcell = PathBuf::from(next("a command")?),
                other => bail!("no option `{other}`; there are --json, --only, --most, --directory and --opcell"),
            }
        }
        for name in asked.only.iter().flatten() {
            ensure!(GROUPS.contains(&name.as_str()), "no group `{name}`; there are {}", GROUPS.join(", "));
        }
        let opcell = &asked.setting.opcell;
        asked.setting.opcell = opcell.canonicalize().with_context(|| format!("no command {}", opcell.display()))?;
        Ok(asked)
    }

    fn measures(&self, group: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == group))
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let setting = &asked.setting;
    let mut curves: Vec<Curve> = Vec::new();
    for group in GROUPS.into_iter().filter(|group| asked.measures(group)) {
        eprintln!("growth: {group}");
        let measured = match group {
            "runs" => in_journal::runs(setting).await,
            "plugins" => commands::plugins(setting),
            "steps" => commands::steps(setting),
            "tools" => commands::tools(setting),
            "questions" => server::questions(setting).await,
            _ => server::tenants(setting).await,
        };
        let measured = measured.with_context(|| format!("`{group}` was not measured"))?;
        if !asked.json {
            for curve in &measured {
                println!("{}", curve.drawn());
            }
        }
        curves.extend(measured);
    }
    if asked.json {
        let shown = |curve: &Curve| {
            let mut value = serde_json::to_value(curve)?;
            if let Some(members) = value.as_object_mut() {
                members.insert("growth".to_owned(), serde_json::to_value(curve.growth())?);
            }
            anyhow::Ok(value)
        };
        let shown = curves.iter().map(shown).collect::<Result<Vec<_>>>()?;
        println!("{:#}", serde_json::Value::from(shown));
    }
    let worse = curves.iter().any(|curve| curve.growth() == Growth::Worse);
    Ok(if worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
