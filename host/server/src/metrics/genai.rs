//! The metrics of the conventions for generative AI, and the cost of models, which these have no metric for.

use super::{MAX_LABELS, OTHER, escaped};
use crate::genai::{
    self, CHAT, ERROR, EXECUTE_TOOL, Metric, OPERATION, OPERATION_DURATION, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL,
    TOKEN_TYPE, TOKEN_USAGE, TOOL, TOOL_DURATION, WORKFLOW, WORKFLOW_DURATION,
};
use opcell::RoundFigures;
use opcell_engine::ports::Failure;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The upper bounds of buckets that the conventions advise for tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The same for durations in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The metric of what rounds cost, of Opcell's own.
const COST: &str = "opcell_gen_ai_client_cost_dollars_total";

/// The distribution of a number.
#[derive(Default)]
struct Distribution {
    buckets: [u64; 14],
    count: u64,
    sum: f64,
}

impl Distribution {
    fn observe(&mut self, bounds: &[f64; 14], value: f64) {
        if let Some(bucket) = bounds.iter().zip(&mut self.buckets).find(|(bound, _)| value <= **bound) {
            *bucket.1 += 1;
        }
        self.count += 1;
        self.sum += value;
    }
}

/// Distributions by their labels.
#[derive(Default)]
struct Family(BTreeMap<String, Distribution>);

impl Family {
    /// Names come from workflows, models and tools: beyond a number of them, the rest is one.
    fn observe(&mut self, bounds: &[f64; 14], attributes: &[(&str, &str)], value: f64) {
        let labels = labels(attributes);
        let is_full = self.0.len() >= MAX_LABELS && !self.0.contains_key(&labels);
        let labels = if is_full {
            self::labels(&attributes.iter().map(|(key, _)| (*key, OTHER)).collect::<Vec<_>>())
        } else {
            labels
        };
        self.0.entry(labels).or_default().observe(bounds, value);
    }
}

fn labels(attributes: &[(&str, &str)]) -> String {
    let labels = attributes.iter().map(|(key, value)| format!("{}=\"{}\"", genai::label(key), escaped(value)));
    labels.collect::<Vec<_>>().join(",")
}

/// Figures of one tenant.
#[derive(Default)]
pub(super) struct GenAi(Mutex<Families>);

#[derive(Default)]
struct Families {
    tokens: Family,
    rounds: Family,
    tools: Family,
    workflows: Family,
    /// US dollars, by provider and model.
    costs: BTreeMap<String, f64>,
}

impl GenAi {
    /// Counts a round of a model.
    pub(super) fn answered(&self, round: &RoundFigures<'_>) {
        let (provider, asked) = genai::provider_and_model(round.model);
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attributes = vec![(OPERATION, CHAT), (PROVIDER, provider), (REQUEST_MODEL, asked)];
        match round.reply {
            Ok(reply) => {
                attributes.push((RESPONSE_MODEL, genai::provider_and_model(&reply.model).1));
                for (kind, tokens) in [("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens)] {
                    let typed: Vec<_> = attributes.iter().copied().chain([(TOKEN_TYPE, kind)]).collect();
                    #[expect(clippy::cast_precision_loss, reason = "a figure of a histogram")]
                    families.tokens.observe(&TOKENS, &typed, tokens as f64);
                }
                if let Some(cost) = reply.usage.cost {
                    let labels = labels(&[(PROVIDER, provider), (REQUEST_MODEL, asked)]);
                    let is_full = families.costs.len() >= MAX_LABELS && !families.costs.contains_key(&labels);
                    let labels =
                        if is_full { self::labels(&[(PROVIDER, OTHER), (REQUEST_MODEL, OTHER)]) } else { labels };
                    *families.costs.entry(labels).or_default() += cost;
                }
            }
            Err(failure) => attributes.push((ERROR, &failure.reason)),
        }
        families.rounds.observe(&SECONDS, &attributes, round.took.as_secs_f64());
    }

    /// Counts a call of a tool by a model.
    pub(super) fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        let mut attributes = vec![(OPERATION, EXECUTE_TOOL), (TOOL, tool)];
        attributes.extend(failure.map(|failure| (ERROR, failure.reason.as_ref())));
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        families.tools.observe(&SECONDS, &attributes, took.as_secs_f64());
    }

    /// Counts a run that has ended.
    pub(super) fn ended(&self, workflow: &str, took: Duration, reason: Option<&str>) {
        let mut attributes = vec![(WORKFLOW, workflow)];
        attributes.extend(reason.map(|reason| (ERROR, reason)));
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        families.workflows.observe(&SECONDS, &attributes, took.as_secs_f64());
    }
}

/// Adds the families of some tenants, each with its label.
pub(super) fn write(out: &mut String, tenants: &[(String, &GenAi)]) {
    type Of = fn(&Families) -> &Family;
    let families: [(&Metric, &[f64; 14], Of); 4] = [
        (&TOKEN_USAGE, &TOKENS, |of| &of.tokens),
        (&OPERATION_DURATION, &SECONDS, |of| &of.rounds),
        (&TOOL_DURATION, &SECONDS, |of| &of.tools),
        (&WORKFLOW_DURATION, &SECONDS, |of| &of.workflows),
    ];
    for (metric, bounds, family) in families {
        let name = metric.prometheus();
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} histogram", metric.about);
        for (tenant, of) in tenants {
            let of = of.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (labels, figures) in &family(&of).0 {
                let mut below = 0;
                for (bound, bucket) in bounds.iter().zip(&figures.buckets) {
                    below += bucket;
                    let _ = writeln!(out, "{name}_bucket{{{tenant},{labels},le=\"{bound}\"}} {below}");
                }
                let Distribution { count, sum, .. } = figures;
                let _ = writeln!(out, "{name}_bucket{{{tenant},{labels},le=\"+Inf\"}} {count}");
                let _ =
                    writeln!(out, "{name}_sum{{{tenant},{labels}}} {sum}\n{name}_count{{{tenant},{labels}}} {count}");
            }
        }
    }
    let _ =
        writeln!(out, "# HELP {COST} US dollars of rounds of models, by provider and model.\n# TYPE {COST} counter");
    for (tenant, of) in tenants {
        for (labels, cost) in &of.0.lock().unwrap_or_else(PoisonError::into_inner).costs {
            let _ = writeln!(out, "{COST}{{{tenant},{labels}}} {cost}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genai::conventions;
    use opcell_engine::ports::ModelReply;

    fn written(of: &GenAi) -> String {
        let mut out = String::new();
        write(&mut out, &[("tenant=\"t\"".to_owned(), of)]);
        out
    }

    fn reply(input: u64, output: u64, cost: Option<f64>) -> ModelReply {
        let mut reply = ModelReply::text("openai/gpt-5-0807", "Yes.");
        (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost) = (input, output, cost);
        reply
    }

    #[test]
    fn rounds_calls_and_runs_are_counted_with_the_attributes_of_the_conventions() {
        let of = GenAi::default();
        let answer = reply(1_000, 3, Some(0.25));
        of.answered(&RoundFigures::new("openai/gpt-5", Duration::from_millis(300), Ok(&answer)));
        of.answered(&RoundFigures::new("openai/gpt-5", Duration::from_millis(30), Ok(&answer)));
        let failure = Failure::host("overloaded", "busy");
        of.answered(&RoundFigures::new("gemini/g", Duration::from_secs(100), Err(&failure)));
        of.called("read", Duration::from_millis(1), None);
        of.called("read", Duration::from_millis(1), Some(&failure));
        of.ended("ship", Duration::from_secs(2), Some("timeout"));
        let text = written(&of);
        let chat = "tenant=\"t\",gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"openai\",\
                    gen_ai_request_model=\"gpt-5\",gen_ai_response_model=\"gpt-5-0807\"";
        for line in [
            format!("gen_ai_client_token_usage_sum{{{chat},gen_ai_token_type=\"input\"}} 2000"),
            format!("gen_ai_client_token_usage_bucket{{{chat},gen_ai_token_type=\"output\",le=\"4\"}} 2"),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{chat},le=\"0.04\"}} 1"),
            format!("gen_ai_client_operation_duration_seconds_count{{{chat}}} 2"),
            "gen_ai_client_operation_duration_seconds_bucket{tenant=\"t\",gen_ai_operation_name=\"chat\",\
             gen_ai_provider_name=\"gcp.gemini\",gen_ai_request_model=\"g\",error_type=\"overloaded\",le=\"81.92\"} 0"
                .to_owned(),
            "gen_ai_execute_tool_duration_seconds_count{tenant=\"t\",gen_ai_operation_name=\"execute_tool\",\
             gen_ai_tool_name=\"read\",error_type=\"overloaded\"} 1"
                .to_owned(),
            "gen_ai_workflow_duration_seconds_sum{tenant=\"t\",gen_ai_workflow_name=\"ship\",error_type=\"timeout\"} 2"
                .to_owned(),
            "opcell_gen_ai_client_cost_dollars_total{tenant=\"t\",gen_ai_provider_name=\"openai\",\
             gen_ai_request_model=\"gpt-5\"} 0.5"
                .to_owned(),
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        // Each series has the labels that the conventions require, and no other of theirs.
        for metric in [&TOKEN_USAGE, &OPERATION_DURATION, &TOOL_DURATION, &WORKFLOW_DURATION] {
            let known = conventions::of_metric(metric.name);
            let begin = format!("{}_count{{", metric.prometheus());
            let series: Vec<&str> = text.lines().filter(|line| line.starts_with(&begin)).collect();
            assert!(!series.is_empty(), "{}", metric.name);
            for line in series {
                let has = known
                    .iter()
                    .map(|(name, _)| *name)
                    .filter(|name| line.contains(&format!("{}=", genai::label(name))));
                let has: Vec<&str> = has.collect();
                conventions::check(metric.name, &known, &has, false);
                assert_eq!(line.matches("=\"").count(), has.len() + 1, "{line}");
            }
        }
    }

    #[test]
    fn names_that_others_choose_are_bounded() {
        let of = GenAi::default();
        let answer = reply(1, 1, Some(1.0));
        for at in 0..1_000 {
            of.called(&format!("tool-{at}"), Duration::ZERO, None);
            of.answered(&RoundFigures::new(&format!("p/m{at}\n\"x"), Duration::ZERO, Ok(&answer)));
        }
        let text = written(&of);
        assert!(text.lines().count() < 4 * 18 * (MAX_LABELS + 2) + MAX_LABELS, "{}", text.lines().count());
        assert!(text.contains("gen_ai_tool_name=\"other\""));
    }
}
