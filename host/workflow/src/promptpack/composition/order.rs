//! References to steps that cannot have run (RFC 0010: "must resolve to either `input` or a prior step's `output`"),
//! which the reference meets in the middle of a run.

use super::validate::{predicates, roots};
use super::{Composition, Step};
use opcell_types::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A reference that can give nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forward<'c> {
    /// The step that has it.
    pub(crate) step: &'c str,
    /// The step that it names.
    pub(crate) names: String,
    /// JSON Pointer of the step below the composition.
    pub(crate) pointer: String,
    /// Both are branches of one parallel step, which run at once.
    pub(crate) at_once: bool,
}

/// Every reference to a step that comes later, runs at the same time, or is the step itself. Names that are no steps
/// are reported elsewhere.
pub(crate) fn forward(composition: &Composition) -> Vec<Forward<'_>> {
    // The position of the step of the main list that a step is, or is a branch of: the list is the order of the run.
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: Vec<(&Step, String)> = Vec::new();
    let mut open: Vec<(&Step, usize, String)> = composition
        .steps
        .iter()
        .enumerate()
        .rev()
        .map(|(index, step)| (step, index, format!("/steps/{index}")))
        .collect();
    while let Some((step, index, pointer)) = open.pop() {
        place.insert(&step.id, index);
        for (branch, nested) in step.branches.iter().enumerate().rev() {
            open.push((nested, index, format!("{pointer}/branches/{branch}")));
        }
        all.push((step, pointer));
    }
    let mut found = Vec::new();
    for (step, pointer) in all {
        let paths = Value::array(predicates(step).iter().map(|predicate| Value::from(predicate.path.as_str())));
        let arguments = Value::from(step.args.clone());
        let named: BTreeSet<String> = [&step.input, &arguments, &paths].into_iter().flat_map(roots).collect();
        for name in named {
            let (own, other) = (place.get(step.id.as_str()), place.get(name.as_str()));
            if name == "input" || other.is_none_or(|other| Some(other) < own) {
                continue;
            }
            let at_once = own == other && name != step.id;
            found.push(Forward { step: &step.id, names: name, pointer: pointer.clone(), at_once });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::forward;
    use crate::promptpack::composition::Composition;
    use opcell_types::Value;

    fn found(steps: &str) -> Vec<String> {
        let text = format!(r#"{{"version":1,"steps":{steps}}}"#);
        let composition = Composition::from_value(&Value::from_json(&text).unwrap()).unwrap();
        let found = forward(&composition);
        found
            .iter()
            .map(|found| {
                format!(
                    "{} {} {}{}",
                    found.pointer,
                    found.step,
                    found.names,
                    if found.at_once { " at once" } else { "" }
                )
            })
            .collect()
    }

    #[test]
    fn a_step_reads_what_ran_before_it() {
        let good = r#"[{"id":"a","kind":"prompt","prompt_task":"p","input":"${input.x}"},
            {"id":"par","kind":"parallel","branches":[
                {"id":"b","kind":"tool","tool":"t","args":{"x":"${a.output}"}},
                {"id":"c","kind":"tool","tool":"t","args":{"x":["${ a.output.y }"]}}],"reduce":{"strategy":"barrier","into":"r"}},
            {"id":"d","kind":"branch","predicate":{"path":"${b.output}","exists":true},"then":"e"},
            {"id":"e","kind":"prompt","prompt_task":"p","input":{"q":"${par.output} ${c.output} ${ghost.output}"}}]"#;
        assert!(found(good).is_empty(), "{:?}", found(good));
    }

    #[test]
    fn what_comes_later_or_at_the_same_time_is_found_where_it_is_read() {
        let wrong = r#"[{"id":"a","kind":"prompt","prompt_task":"p","input":"${b.output}"},
            {"id":"b","kind":"prompt","prompt_task":"p","input":"${b.output}","depends_on":["d"]},
            {"id":"par","kind":"parallel","branches":[
                {"id":"x","kind":"tool","tool":"t","args":{"v":"${y.output}"}},
                {"id":"y","kind":"tool","tool":"t","args":{}}],"reduce":{"strategy":"barrier","into":"r"}},
            {"id":"d","kind":"branch","predicate":{"not":{"path":"${e.output}","exists":true}},"then":"e"},
            {"id":"e","kind":"prompt","prompt_task":"p"}]"#;
        assert_eq!(found(wrong), ["/steps/0 a b", "/steps/1 b b", "/steps/2/branches/0 x y at once", "/steps/3 d e"]);
    }
}
