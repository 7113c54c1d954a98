//! `opcell triggers`: what starts runs without a person, and when.

use super::{Exit, Failure, Global, Terminal};
use jiff::Timestamp;
use opcell::triggers::{RunName, Trigger, TriggerAction, TriggerSource};
use serde_json::{Value, json};

pub fn triggers(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.config()?;
    let now = Timestamp::now();
    if terminal.json {
        let all: Vec<Value> = config.triggers.iter().map(|trigger| shown(trigger, now)).collect();
        terminal.json(&json!(all))?;
        return Ok(Exit::Done);
    }
    if config.triggers.is_empty() {
        terminal.note("no triggers: `[triggers.NAME]` of the project file has a `cron` or a `webhook`");
    }
    let width = config.triggers.iter().map(|trigger| trigger.name.len()).max().unwrap_or(0);
    for trigger in &config.triggers {
        terminal.line(&format!("{:width$}  {}, {}", trigger.name, does(trigger), comes(trigger, now)))?;
    }
    Ok(Exit::Done)
}

fn does(trigger: &Trigger) -> String {
    match &trigger.action {
        TriggerAction::Start { workflow } => format!("starts {workflow}"),
        TriggerAction::Signal { signal, run: RunName::Fixed(run) } => format!("sends {signal} to run {run}"),
        TriggerAction::Signal { signal, run: RunName::Body(at) } => format!("sends {signal} to the run at {at}"),
        _ => "acts".to_owned(),
    }
}

fn comes(trigger: &Trigger, now: Timestamp) -> String {
    match &trigger.source {
        TriggerSource::Cron(schedule) => {
            let next = schedule.next(now).map(|next| format!(", next {}", next.to_zoned(schedule.zone().clone())));
            format!("at `{}`{}", schedule.text(), next.unwrap_or_default())
        }
        TriggerSource::Webhook(webhook) => {
            format!("for requests to /v1/default/hooks/{} (signed: {})", trigger.name, webhook.signature)
        }
        _ => "at times".to_owned(),
    }
}

fn shown(trigger: &Trigger, now: Timestamp) -> Value {
    let mut shown = match &trigger.source {
        TriggerSource::Cron(schedule) => json!({
            "name": trigger.name, "source": "cron", "cron": schedule.text(), "zone": schedule.zone().iana_name(),
            "missed": schedule.missed(), "next": schedule.next(now).map(|next| next.to_string()),
        }),
        TriggerSource::Webhook(webhook) => json!({
            "name": trigger.name, "source": "webhook", "signature": webhook.signature,
            "path": format!("/v1/default/hooks/{}", trigger.name),
        }),
        _ => json!({"name": trigger.name}),
    };
    if let Some(shown) = shown.as_object_mut() {
        match &trigger.action {
            TriggerAction::Start { workflow } => drop(shown.insert("workflow".to_owned(), json!(workflow))),
            TriggerAction::Signal { signal, run } => {
                shown.insert("signal".to_owned(), json!(signal));
                match run {
                    RunName::Fixed(run) => shown.insert("run".to_owned(), json!(run)),
                    RunName::Body(at) => shown.insert("run-from".to_owned(), json!(at.to_string())),
                    _ => None,
                };
            }
            _ => {}
        }
    }
    shown
}
