//! Reading `[triggers]`.

use super::{Checker, duration, span_of};
use crate::{
    config::text::{PasswordText, TriggerText, WebhookText},
    http::SecretSource,
    triggers::{
        DEFAULT_WINDOW, EventName, Missed, Pointer, RunName, Schedule, ScheduleError, Trigger, TriggerAction,
        TriggerSource, Webhook,
    },
};
use indexmap::IndexMap;
use opcell_ir::Span;
use opcell_types::{Value, value::Map};
use serde_spanned::Spanned;
use std::{sync::Arc, time::Duration};

/// The longest a webhook's request may be on its way.
const MAX_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The key under which the TOML reader hides a date or a time.
const DATE: &str = "$__toml_private_datetime";

impl Checker<'_> {
    pub(super) fn triggers(&mut self, triggers: IndexMap<Spanned<String>, TriggerText>) -> Vec<Trigger> {
        let mut signed: IndexMap<SecretSource, Arc<str>> = IndexMap::new();
        let mut read = Vec::new();
        for (name, text) in triggers {
            let Some(trigger) = self.trigger(&name, text) else { continue };
            if let TriggerSource::Webhook(webhook) = &trigger.source {
                self.own_secrets(&name, webhook, &mut signed);
            }
            read.push(trigger);
        }
        read
    }

    /// Two webhooks with one secret: a request to one of them could be sent to the other, as nothing that is signed
    /// says which one it is for.
    fn own_secrets(
        &mut self,
        name: &Spanned<String>,
        webhook: &Webhook,
        signed: &mut IndexMap<SecretSource, Arc<str>>,
    ) {
        for secret in &webhook.secrets {
            match signed.get(secret).filter(|other| ***other != **name.get_ref()) {
                Some(other) => {
                    let message = format!("triggers `{other}` and `{}` have one secret", name.get_ref());
                    let help = "a request to one could be sent to the other: give each webhook a secret of its own";
                    self.error("shared-secret", span_of(name), message, Some(help.to_owned()));
                }
                None => {
                    signed.insert(secret.clone(), name.get_ref().as_str().into());
                }
            }
        }
    }

    fn trigger_error(&mut self, span: Span, message: String, help: &str) {
        self.error("invalid-trigger", span, message, Some(help.to_owned()));
    }

    fn trigger(&mut self, name: &Spanned<String>, text: TriggerText) -> Option<Trigger> {
        let at = span_of(name);
        let written = name.get_ref().as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if written.is_empty() || written.len() > 64 || !written.chars().all(plain) {
            let message = format!("`{}` is not a name of a trigger", crate::report::printable(written));
            self.trigger_error(at, message, "a name has 1 to 64 letters, digits, `-` and `_`");
            return None;
        }
        let missed = text.missed.as_ref().map(|missed| (*missed.get_ref(), span_of(missed)));
        let source = match (text.cron, text.webhook) {
            (Some(cron), None) => {
                TriggerSource::Cron(self.schedule(&cron, text.zone.as_ref(), missed.map(|(missed, _)| missed))?)
            }
            (None, Some(webhook)) => {
                let only_cron = text.zone.as_ref().map(|zone| ("zone", span_of(zone)));
                if let Some((key, span)) = only_cron.or(missed.map(|(_, span)| ("missed", span))) {
                    self.trigger_error(span, format!("`{key}` is about `cron`"), "remove it");
                }
                TriggerSource::Webhook(self.webhook(at, webhook)?)
            }
            (cron, _) => {
                let both = if cron.is_some() { "both `cron` and" } else { "neither `cron` nor" };
                let message = format!("trigger `{written}` has {both} `webhook`");
                self.trigger_error(at, message, "a trigger is a schedule (`cron`) or takes requests (`webhook`)");
                return None;
            }
        };
        let action = match (text.workflow, text.signal) {
            (Some(workflow), None) => {
                if let Some(run) = text.run.as_ref().or(text.run_from.as_ref()) {
                    let message = "a run that a trigger starts gets its ID from the trigger".to_owned();
                    self.trigger_error(span_of(run), message, "`run` and `run-from` belong to `signal`; remove it");
                }
                TriggerAction::Start { workflow: workflow.into_inner().into() }
            }
            (None, Some(signal)) => {
                if let Some((_, span)) = missed.filter(|(missed, _)| *missed != Missed::Skip) {
                    let message = "missed signals are not sent later: nothing says whether they were".to_owned();
                    self.trigger_error(span, message, "remove `missed`, or start a `workflow`");
                }
                let run = self.run_name(at, &source, text.run, text.run_from)?;
                TriggerAction::Signal { signal: signal.into_inner().into(), run }
            }
            (workflow, _) => {
                let both = if workflow.is_some() { "both `workflow` and" } else { "neither `workflow` nor" };
                let message = format!("trigger `{written}` has {both} `signal`");
                self.trigger_error(at, message, "a trigger starts a `workflow`, or sends a `signal` to a `run`");
                return None;
            }
        };
        let input = match text.input {
            None => Map::new(),
            Some(input) => self.input(input)?,
        };
        Some(Trigger { name: written.into(), source, action, input })
    }

    fn schedule(
        &mut self,
        cron: &Spanned<String>,
        zone: Option<&Spanned<String>>,
        missed: Option<Missed>,
    ) -> Option<Schedule> {
        let named = zone.map_or("UTC", |zone| zone.get_ref());
        match Schedule::new(cron.get_ref(), named, missed.unwrap_or_default()) {
            Ok(schedule) => Some(schedule),
            Err(error @ ScheduleError::Zone(_)) => {
                let span = zone.map_or_else(|| span_of(cron), span_of);
                self.trigger_error(span, error.to_string(), "write an IANA name, such as `Europe/Berlin`");
                None
            }
            Err(error) => {
                let help = "minute, hour, day of the month, month, day of the week: `30 3 * * 1-5`";
                self.trigger_error(span_of(cron), error.to_string(), help);
                None
            }
        }
    }

    fn webhook(&mut self, at: Span, text: WebhookText) -> Option<Webhook> {
        if text.secrets.is_empty() {
            let message = "a webhook without a secret would take requests from everyone".to_owned();
            self.trigger_error(at, message, "name its source: `secrets = [{ env = \"NAME\" }]`");
            return None;
        }
        let secrets: Vec<SecretSource> = text.secrets.into_iter().filter_map(|secret| self.secret(&secret)).collect();
        let window = match &text.window {
            None => DEFAULT_WINDOW,
            Some(window) => match duration(window.get_ref()).filter(|length| *length <= MAX_WINDOW) {
                Some(length) => length,
                None => {
                    let message = format!("`{}` is not a duration of at most a day", window.get_ref());
                    self.error("invalid-duration", span_of(window), message, Some("write `5 min`".to_owned()));
                    DEFAULT_WINDOW
                }
            },
        };
        let mut body = IndexMap::new();
        for (key, pointer) in text.body {
            if let Some(pointer) = self.pointer(&pointer) {
                body.insert(key.into_inner(), pointer);
            }
        }
        let on = match text.on {
            None => Vec::new(),
            Some(on) => {
                if on.is_empty() {
                    let message = "`on` names no event, so that the webhook would take none".to_owned();
                    self.trigger_error(at, message, "name events, such as `on = [\"issues.opened\"]`, or remove it");
                }
                on.iter().filter_map(|name| self.event(name)).collect()
            }
        };
        Some(Webhook { signature: text.signature, secrets, window, body, on })
    }

    fn event(&mut self, written: &Spanned<String>) -> Option<EventName> {
        let read = written.get_ref().parse();
        read.map_err(|error: crate::triggers::InvalidEventName| {
            let help = "write `issues.opened`, or `issues` for all of its actions";
            self.trigger_error(span_of(written), error.to_string(), help);
        })
        .ok()
    }

    fn secret(&mut self, secret: &Spanned<PasswordText>) -> Option<SecretSource> {
        match (&secret.get_ref().env, &secret.get_ref().file) {
            (Some(name), None) => Some(SecretSource::Env(name.clone())),
            (None, Some(file)) => Some(SecretSource::File(self.root.join(file))),
            _ => {
                let message = "a secret needs exactly one of `env` and `file`".to_owned();
                self.error("invalid-credential", span_of(secret), message, None);
                None
            }
        }
    }

    fn pointer(&mut self, written: &Spanned<String>) -> Option<Pointer> {
        let read = written.get_ref().parse();
        read.map_err(|error: crate::triggers::InvalidPointer| {
            self.error("invalid-trigger", span_of(written), error.to_string(), None);
        })
        .ok()
    }

    fn run_name(
        &mut self,
        at: Span,
        source: &TriggerSource,
        run: Option<Spanned<String>>,
        run_from: Option<Spanned<String>>,
    ) -> Option<RunName> {
        match (run, run_from, source) {
            (Some(run), None, _) => Some(RunName::Fixed(run.into_inner().into())),
            (None, Some(pointer), TriggerSource::Webhook(_)) => self.pointer(&pointer).map(RunName::Body),
            (None, Some(pointer), TriggerSource::Cron(_)) => {
                let message = "a schedule has no body that could name a run".to_owned();
                self.trigger_error(span_of(&pointer), message, "name it with `run`");
                None
            }
            (run, _, _) => {
                let message = format!(
                    "a signal needs a run, and has {}",
                    if run.is_some() { "two names of one" } else { "none" }
                );
                self.trigger_error(at, message, "give it `run`, or for a webhook `run-from = \"/where/in/the/body\"`");
                None
            }
        }
    }

    fn input(&mut self, input: Spanned<Value>) -> Option<Map> {
        let span = span_of(&input);
        let input = input.into_inner();
        if has_date(&input) {
            let message = "JSON has no dates and times".to_owned();
            self.trigger_error(span, message, "write the date as a string, in quotes");
            return None;
        }
        match input {
            Value::Object(entries) => Some(
                entries.iter().map(|(key, value)| (Arc::<str>::from(key).as_ref().into(), value.clone())).collect(),
            ),
            _ => {
                self.trigger_error(span, "`input` is a table".to_owned(), "write `input = { key = \"value\" }`");
                None
            }
        }
    }
}

/// Returns `true` if a date or a time is anywhere in the value, whose depth its reader has bounded.
fn has_date(value: &Value) -> bool {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items.iter()),
            Value::Object(entries) if entries.get(DATE).is_some() => return true,
            Value::Object(entries) => left.extend(entries.values()),
            _ => {}
        }
    }
    false
}
