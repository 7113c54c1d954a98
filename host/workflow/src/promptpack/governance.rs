//! The governance that a pack declares (RFC 0013, 0016), of the whole pack and of single agents.
//!
//! A pack declares and does not decide. Three kinds of fields: those that describe (`intended_purpose`,
//! `risk_classification`, …), which ask nothing of a host; those that are kept here (`autonomy_level`,
//! `approved_environments`, obligations whose controls are fields and validators); and those that something else has to
//! keep, to which the operator of a host has to agree.

use super::checks::Finding;
use super::composition::Step as Node;
use super::governed;
use super::pack::{Pack, Tool};
use super::speaker::tool_name;
use crate::json::pointer_part;
use indexmap::IndexSet;
use opcell_ir::diagnostic::{Diagnostic, did_you_mean};
use opcell_ir::ir::{ApprovalRule, ApprovalRules, Ask, Governance};
use opcell_ir::print::go::quote;
use opcell_types::Value;
use std::collections::BTreeSet;

/// Fields of a governance that something outside of this host keeps, in the order in which they are reported.
const OUTSIDE: [&str; 4] = ["requires_ai_disclosure", "obligations", "reviews", "independent_of"];

/// The autonomy of an agent, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Autonomy {
    Suggests,
    ActsWithApproval,
    /// With oversight or without: a host has nothing to ask before a call.
    Acts,
}

/// One declaration and its place.
struct Declared<'p> {
    /// The member that it is for; absent: the whole pack.
    member: Option<&'p str>,
    pointer: String,
    /// As a message names it.
    name: String,
    fields: &'p Value,
}

fn declarations(pack: &Pack) -> Vec<Declared<'_>> {
    let whole = pack.rest.get("metadata").and_then(|metadata| metadata.get("governance"));
    let whole = whole.into_iter().map(|fields| Declared {
        member: None,
        pointer: "/metadata/governance".to_owned(),
        name: "metadata.governance".to_owned(),
        fields,
    });
    let members = pack.agents.iter().flat_map(|agents| &agents.members).filter_map(|(key, agent)| {
        Some(Declared {
            member: Some(key),
            pointer: format!("/agents/members/{}/governance", pointer_part(key)),
            name: format!("agents.members[{}].governance", quote(key)),
            fields: agent.rest.get("governance")?,
        })
    });
    whole.chain(members).filter(|declared| !declared.fields.is_nullish()).collect()
}

impl Declared<'_> {
    fn list(&self, field: &str) -> &[Value] {
        self.fields.get(field).and_then(Value::as_array).unwrap_or_default()
    }

    fn autonomy(&self) -> Option<Autonomy> {
        match self.fields.get("autonomy_level").and_then(Value::as_str)? {
            "suggests" => Some(Autonomy::Suggests),
            "acts_with_approval" => Some(Autonomy::ActsWithApproval),
            _ => Some(Autonomy::Acts),
        }
    }

    /// Returns `true` if a field declares a rule that something else has to keep.
    fn is_outside(&self, field: &str) -> bool {
        match field {
            "requires_ai_disclosure" => self.fields.get(field) == Some(&Value::Bool(true)),
            "obligations" => self.list(field).iter().any(|obligation| {
                let controls = obligation.get("controls").and_then(Value::as_array).unwrap_or_default();
                controls.iter().any(|control| control.get("eval").is_some() || control.get("external").is_some())
            }),
            "reviews" => !self.list(field).is_empty(),
            "independent_of" => {
                let rule = self.fields.get(field).filter(|rule| !rule.is_nullish());
                rule.is_some_and(|rule| rule.get("enforcement").and_then(Value::as_str) != Some("advisory"))
            }
            _ => false,
        }
    }
}

/// The part of the declarations that a host decides about before a run starts.
pub(super) fn of(pack: &Pack) -> Governance {
    let all = declarations(pack);
    let is_outside = |field: &&str| all.iter().any(|declared| declared.is_outside(field));
    let mut environments: Option<Vec<String>> = None;
    for declared in all.iter().filter(|declared| declared.fields.get("approved_environments").is_some()) {
        let texts = declared.list("approved_environments").iter().filter_map(Value::as_str);
        let approved: IndexSet<&str> = texts.collect();
        environments = Some(match environments {
            None => approved.into_iter().map(str::to_owned).collect(),
            // Of a pack and its agents, each has to be approved.
            Some(before) => before.into_iter().filter(|name| approved.contains(name.as_str())).collect(),
        });
    }
    Governance {
        environments,
        unenforced: OUTSIDE.iter().filter(|field| is_outside(field)).map(|field| (*field).to_owned()).collect(),
    }
}

/// The declaration with the least autonomy that applies to a prompt.
fn strictest<'d, 'p>(all: &'d [Declared<'p>], prompt: Option<&str>) -> Option<(Autonomy, &'d Declared<'p>)> {
    let applies = all.iter().filter(|declared| declared.member.is_none() || declared.member == prompt);
    applies.filter_map(|declared| Some((declared.autonomy()?, declared))).min_by_key(|(autonomy, _)| *autonomy)
}

/// The rules by which calls of a prompt's tools wait for a person: those with an effect, as the host knows it or the
/// pack declares it.
pub(super) fn approvals(pack: &Pack, prompt: &str) -> ApprovalRules {
    let all = declarations(pack);
    let Some((Autonomy::Suggests | Autonomy::ActsWithApproval, declared)) = strictest(&all, Some(prompt)) else {
        return ApprovalRules::default();
    };
    let from = Some(format!("{}.autonomy_level", declared.name).into());
    let mut rules = vec![ApprovalRule { from: from.clone(), ..ApprovalRule::of(Ask::UnlessPure) }];
    let acting = pack.tools.iter().filter(|(_, tool)| matches!(effect(tool), Some("write" | "external")));
    // A `*` in a name would stand for any characters; the schema of packs allows none.
    let names: Vec<String> = acting.map(|(key, _)| tool_name(pack, key).to_owned()).collect();
    if !names.is_empty() {
        rules.push(ApprovalRule { tools: Some(names), from, ..ApprovalRule::of(Ask::Always) });
    }
    rules.into()
}

fn effect(tool: &Tool) -> Option<&str> {
    tool.rest.get("action_scope")?.get("effect")?.as_str()
}

/// Finds declarations that name nothing, that the pack itself breaks, and that something else has to keep.
pub(super) fn check(pack: &Pack) -> Vec<Finding> {
    let all = declarations(pack);
    let mut found = Vec::new();
    for declared in &all {
        check_names(pack, declared, &mut found);
        for field in OUTSIDE.iter().filter(|field| declared.is_outside(field)) {
            let message =
                format!("{}.{field} is not enforced by Opcell: a run needs its operator's consent", declared.name);
            let help = format!(
                "if something else keeps it, the operator adds \"{field}\" to `accept-governance` under [packs] of the project file"
            );
            let pointer = format!("{}/{field}", declared.pointer);
            found.push(Finding {
                diagnostic: Diagnostic::warning("unenforced-governance", message).help(help),
                pointer,
            });
        }
    }
    check_autonomy(pack, &all, &mut found);
    found
}

/// Checks that controls and reviews name what is there, and what guards something.
fn check_names(pack: &Pack, declared: &Declared<'_>, found: &mut Vec<Finding>) {
    let mut error = |below: String, message: String, help: String| {
        let diagnostic = Diagnostic::error("governance-control", format!("{}.{message}", declared.name));
        let diagnostic = if help.is_empty() { diagnostic } else { diagnostic.help(help) };
        found.push(Finding { diagnostic, pointer: format!("{}{below}", declared.pointer) });
    };
    let near = |name: &str, known: &BTreeSet<&str>| {
        let meant = did_you_mean(name, known.iter().copied());
        meant.map(|meant| format!("did you mean {}?", quote(meant))).unwrap_or_default()
    };
    let evals: BTreeSet<&str> = pack.eval_ids().collect();
    let (guarding, disabled) = validators(pack);
    let fields: BTreeSet<&str> =
        declared.fields.as_object().into_iter().flatten().map(|(name, _)| name.as_ref()).collect();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    for (at, obligation) in declared.list("obligations").iter().enumerate() {
        let controls = obligation.get("controls").and_then(Value::as_array).unwrap_or_default();
        for (index, control) in controls.iter().enumerate() {
            let place = format!("obligations[{at}].controls[{index}]");
            let below = |key: &str| format!("/obligations/{at}/controls/{index}/{key}");
            if let Some(name) = text(control, "field").filter(|name| !fields.contains(name.as_str())) {
                let message = format!("{place} names the field {}, which is not declared beside it", quote(&name));
                error(below("field"), message, near(&name, &fields));
            }
            if let Some(name) = text(control, "validator").filter(|name| !guarding.contains(name.as_str())) {
                let (what, help) = match disabled.contains(name.as_str()) {
                    true => ("is disabled", "enable the validator, or leave the control out".to_owned()),
                    false => ("no prompt of the pack has", near(&name, &guarding)),
                };
                error(below("validator"), format!("{place} names the validator {}, which {what}", quote(&name)), help);
            }
            if let Some(name) = text(control, "eval").filter(|name| !evals.contains(name.as_str())) {
                let message = format!("{place} names the eval {}, which the pack does not have", quote(&name));
                error(below("eval"), message, near(&name, &evals));
            }
        }
    }
    let ids: Vec<String> = declared.list("obligations").iter().filter_map(|one| text(one, "id")).collect();
    let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    for (at, review) in declared.list("reviews").iter().enumerate() {
        if let Some(name) = text(review, "eval").filter(|name| !evals.contains(name.as_str())) {
            let message = format!("reviews[{at}] names the eval {}, which the pack does not have", quote(&name));
            error(format!("/reviews/{at}/eval"), message, near(&name, &evals));
        }
        let satisfied = review.get("satisfies").and_then(Value::as_array).unwrap_or_default();
        for (index, name) in satisfied.iter().enumerate() {
            let Some(name) = name.as_str().filter(|name| !ids.contains(name)) else { continue };
            let message = format!("reviews[{at}] satisfies {}, which is not one of its obligations", quote(name));
            error(format!("/reviews/{at}/satisfies/{index}"), message, near(name, &ids));
        }
    }
}

/// The ids of the validators that guard something, and of those that are disabled.
fn validators(pack: &Pack) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let listed = pack.prompts.values().filter_map(|prompt| prompt.rest.get("validators")?.as_array());
    let (mut guarding, mut disabled) = (BTreeSet::new(), BTreeSet::new());
    for validator in listed.flatten() {
        let Some(id) = validator.get("id").and_then(Value::as_str) else { continue };
        if governed::is_enabled(validator) {
            guarding.insert(id)
        } else {
            disabled.insert(id)
        };
    }
    (guarding, disabled)
}

/// Checks that an agent that only suggests has no tool that acts, and that nothing acts past a person who has to
/// approve.
fn check_autonomy(pack: &Pack, all: &[Declared<'_>], found: &mut Vec<Finding>) {
    let acts = |key: &str| pack.tools.get(key).and_then(effect) != Some("read");
    let mut error = |declared: &Declared<'_>, pointer: String, place: String, tool: &str, why: &str| {
        let level = declared.fields.get("autonomy_level").and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "{place} names the tool {}, which is not declared to read only; {}.autonomy_level is {}{why}",
            quote(tool),
            declared.name,
            quote(level)
        );
        let help = "declare `action_scope.effect` as \"read\" if the tool reads only, or leave it out";
        found.push(Finding { diagnostic: Diagnostic::error("governance-autonomy", message).help(help), pointer });
    };
    for (key, prompt) in &pack.prompts {
        let Some((Autonomy::Suggests, declared)) = strictest(all, Some(key)) else { continue };
        let is_tool = |tool: &str| pack.agent_tool(key, tool).is_none() && !pack.is_itself(key, tool);
        let blocked =
            |tool: &str| prompt.tool_policy.is_blocked(tool) || prompt.tool_policy.is_blocked(tool_name(pack, tool));
        for (index, tool) in prompt.tools.iter().enumerate().filter(|(_, tool)| is_tool(tool) && !blocked(tool)) {
            if acts(tool) {
                let pointer = format!("/prompts/{}/tools/{index}", pointer_part(key));
                error(declared, pointer, format!("prompts[{}].tools", quote(key)), tool, "");
            }
        }
    }
    let whole = strictest(all, None);
    for (name, composition) in &pack.compositions {
        let list = format!("/compositions/{}/steps", pointer_part(name));
        let mut open: Vec<(String, &Node)> =
            composition.steps.iter().enumerate().map(|(at, node)| (format!("{list}/{at}"), node)).collect();
        while let Some((pointer, node)) = open.pop() {
            let branches = node.branches.iter().enumerate();
            open.extend(branches.map(|(at, branch)| (format!("{pointer}/branches/{at}"), branch)));
            let place = format!("compositions[{}], step {}", quote(name), quote(&node.id));
            if let (Some((autonomy, declared)), "tool") = (whole, node.kind.as_str())
                && autonomy < Autonomy::Acts
                && acts(&node.tool)
            {
                let why = if autonomy == Autonomy::Suggests { "" } else { ", and such a step asks no person" };
                error(declared, format!("{pointer}/tool"), place, &node.tool, why);
            } else if let Some((Autonomy::Suggests, declared)) = strictest(all, Some(&node.prompt_task)) {
                for (at, tool) in node.tools.iter().enumerate().filter(|(_, tool)| acts(tool)) {
                    error(declared, format!("{pointer}/tools/{at}"), place.clone(), tool, "");
                }
            }
        }
    }
}
