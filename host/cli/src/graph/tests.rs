use super::{Drawing, Edge, Mark, TONES, Target, Undrawable, svg};
use crate::graph::Path;
use opcell::Workflow;
use opcell_engine::event::{
    Destination, EffectId, EffectReply, Event, FrameId, Recorded, Request, StepResult, Timestamp,
};
use opcell_ir::names::Outcome;

const LOOP: &str = r#"
    {:name "w" :description "d"
     :steps [{:name "look" :type :invoke :operation "a/look" :args {}
              :judge {:type :invoke :operation "a/judge" :args {}}
              :on {"AGAIN" {:goto "look" :max-iterations 3 :on-max-iterations "give up"} :fine {:goto :next} "STOP" {:goto :done}}}
             {:name "say \"<hi>\"\\" :type :session :contributions [{:type :template :text "Hi" :vars {}}]
              :judge {:type :llm :contributions [{:type :template :text "OK?" :vars {}}]}
              :on {"OK" {:goto :done} "NO" {:goto "look"}}}
             {:name "give up" :type :delegate :target "helper" :prompt-string "Help."}]}"#;

fn drawing(text: &str) -> Drawing {
    Drawing::of(Workflow::compile("w.edn", text).unwrap().ir(), None)
}

#[test]
fn judges_outcomes_bounds_and_ends_are_drawn_in_mermaid() {
    insta::assert_snapshot!(drawing(LOOP).mermaid());
}

#[test]
fn judges_outcomes_bounds_and_ends_are_drawn_in_dot() {
    insta::assert_snapshot!(drawing(LOOP).dot());
}

#[test]
fn the_library_draws_every_step_and_label_as_svg() {
    let svg = drawing(LOOP).svg().unwrap();
    for text in
        ["look", "a/judge", "AGAIN", "at most 3 times", "LLM judge", "delegate helper", "say &quot;&lt;hi&gt;&quot;\\"]
    {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn two_outcomes_with_one_destination_are_two_labels() {
    let edge = |outcome: &str, rest: &str| Edge {
        from: 0,
        to: Target::Done,
        lines: vec![outcome.to_owned(), rest.to_owned()],
        taken_as: None,
        taken: None,
    };
    let (done, again) = (edge("DONE", "LLM judge"), edge("AGAIN", "when exhausted"));
    assert_eq!(svg::together(&[&done, &again]), ["DONE", "LLM judge", "", "AGAIN", "when exhausted"]);
}

#[test]
fn groups_are_chains_that_come_back_after_the_step_that_chose_them() {
    let text = r#"---
name: w
description: d
---
```workflow
inputs: {}
outputs: {}
steps:
  - id: choose
    type: conditional
    description: Chooses
    condition: $inputs.fast
    then: [a, b]
    else: [c]
    inputs: {}
    outputs: {}
  - {id: a, type: tool, tool: t, description: A, inputs: {}, outputs: {}}
  - {id: b, type: tool, tool: t, description: B, inputs: {}, outputs: {}}
  - {id: c, type: tool, tool: t, description: C, inputs: {}, outputs: {}}
  - {id: last, type: tool, tool: t, description: L, inputs: {}, outputs: {}}
```
"#;
    let workflow = Workflow::compile("w.md", text).unwrap();
    insta::assert_snapshot!(Drawing::of(workflow.ir(), None).mermaid());
}

#[test]
fn a_workflow_too_large_for_one_picture_says_so_and_stays_text() {
    let steps: String =
        (0..500).map(|n| format!("{{:name \"s{n}\" :type :invoke :operation \"a/b\" :args {{}}}}\n")).collect();
    let drawing = drawing(&format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}"));
    assert_eq!(drawing.svg(), Err(Undrawable::TooLarge(500)));
    assert!(drawing.mermaid().contains("s499 --> done"));
}

/// Every shape of a graph that has caught layouts out: circles, ladders of back edges, twins, islands.
#[test]
fn awkward_graphs_are_drawn() {
    for steps in [2_usize, 7, 12] {
        for stride in 1..steps.min(5) {
            let text: String = (0..steps)
                .map(|n| {
                    let (back, on) = (n.saturating_sub(stride), (n + stride) % steps);
                    format!(
                        "{{:name \"s{n}\" :type :invoke :operation \"a/b\" :args {{}} :judge {{:type :invoke :operation \"a/j\" :args {{}}}}\n\
                         :on {{\"A\" {{:goto \"s{back}\" :max-iterations 2}} \"B\" {{:goto \"s{on}\" :max-iterations 2}} \"C\" {{:goto \"s{on}\" :max-iterations 2}}\n\
                               \"D\" {{:goto :done}}}}}}\n"
                    )
                })
                .collect();
            drawing(&format!("{{:name \"w\" :description \"d\" :steps [{text}]}}")).svg().unwrap();
        }
    }
}

#[test]
fn the_way_of_a_run_is_counted_and_a_callee_is_not_part_of_it() {
    let entered = |frame, parent, step| Event::StepEntered {
        frame: FrameId(frame),
        parent: FrameId(parent),
        step,
        name: "n".into(),
        visit: 1,
    };
    let routed = |frame, outcome: &str, to| Event::Routed {
        frame: FrameId(frame),
        outcome: Some(Outcome::Text(outcome.into())),
        to,
        redirected: None,
        original_target: None,
        bounded: true,
    };
    let end = serde_json::from_str(r#"{"status": "completed", "result": null}"#).unwrap();
    let events = [
        entered(1, 0, 0),
        routed(1, "AGAIN", Destination::Step(0)),
        entered(2, 0, 0),
        routed(2, "AGAIN", Destination::Step(0)),
        entered(3, 0, 0),
        // A callee's line.
        entered(5, 4, 1),
        Event::StepFinished { frame: FrameId(5), result: Box::new(StepResult::default()) },
        routed(5, "OK", Destination::Done),
        Event::Routed {
            frame: FrameId(3),
            outcome: Some(Outcome::Keyword("fine".into())),
            to: Destination::Step(1),
            redirected: None,
            original_target: None,
            bounded: true,
        },
        entered(6, 0, 1),
        entered(7, 0, 2),
        Event::RunFinished(Box::new(end)),
    ];
    let recorded: Vec<Recorded> =
        events.into_iter().zip(1..).map(|(event, seq)| Recorded::new(seq, Timestamp(0), event)).collect();
    let workflow = Workflow::compile("w.edn", LOOP).unwrap();
    let drawing = Drawing::of(workflow.ir(), Some(&Path::of(&recorded)));
    insta::assert_snapshot!(drawing.mermaid());
    assert!(drawing.svg().unwrap().contains("3 visits"));
}

#[test]
fn a_loop_leaves_the_step_to_which_it_comes_back() {
    let svg = drawing(LOOP).svg().unwrap();
    let numbers = |pattern: &str| -> Vec<Vec<f64>> {
        let pattern = regex::Regex::new(pattern).unwrap();
        let found = pattern.captures_iter(&svg);
        found.map(|of| of.iter().skip(1).map(|number| number.unwrap().as_str().parse().unwrap()).collect()).collect()
    };
    let steps = numbers(
        r#"<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx="0" class="box \w+" fill="[^n]"#,
    );
    // It has one curve, and both of its ends have one x.
    let curves = numbers(r#"<path class="\w+" d="M ([\d.-]+) ([\d.-]+) C [^,]+, [^,]+, ([\d.-]+) ([\d.-]+)" "#);
    let loops: Vec<&Vec<f64>> = curves.iter().filter(|at| (at[0] - at[2]).abs() < 0.1 && at[1] < at[3]).collect();
    let loops: Vec<&&Vec<f64>> = loops.iter().filter(|at| at[3] - at[1] < 20.0).collect();
    assert_eq!(loops.len(), 1, "{svg}");
    let is_its = |step: &&Vec<f64>| {
        let (left, right, top, bottom) = (step[0], step[0] + step[2], step[1], step[1] + step[3]);
        let at_border = (loops[0][0] - left).abs() < 0.1 || (loops[0][0] - right).abs() < 0.1;
        at_border && top < loops[0][1] && loops[0][3] < bottom
    };
    assert!(steps.iter().any(|step| is_its(&step)), "{:?} begins at none of {steps:?}", loops[0]);
}

#[test]
fn steps_that_run_wait_were_skipped_or_failed_are_told_apart() {
    let workflow = Workflow::compile("w.edn", LOOP).unwrap();
    let entered = |frame, step, name: &str| Event::StepEntered {
        frame: FrameId(frame),
        parent: FrameId(0),
        step,
        name: name.into(),
        visit: 1,
    };
    let end = r#"{"status": "failed", "result": null, "reason": "lost", "step": "give up"}"#;
    let steps = [
        (entered(1, 0, "look"), [Mark::Running, Mark::Plain, Mark::Plain]),
        (Event::StepFinished { frame: FrameId(1), result: Box::default() }, [Mark::Done, Mark::Plain, Mark::Plain]),
        (
            Event::StepSkipped { parent: FrameId(0), step: 1, name: "say".into() },
            [Mark::Done, Mark::Skipped, Mark::Plain],
        ),
        (entered(2, 2, "give up"), [Mark::Done, Mark::Skipped, Mark::Running]),
        (Event::WaitStarted { frame: FrameId(2), question: None }, [Mark::Done, Mark::Skipped, Mark::Waiting]),
        (Event::SignalTaken { frame: FrameId(2), signal: 1 }, [Mark::Done, Mark::Skipped, Mark::Running]),
        // An element of the step waits for a timer.
        (
            Event::ElementEntered { frame: FrameId(3), parent: FrameId(2), index: 0 },
            [Mark::Done, Mark::Skipped, Mark::Running],
        ),
        (
            Event::Requested { effect: EffectId(1), frame: FrameId(3), request: Request::Sleep { ms: 1.0 } },
            [Mark::Done, Mark::Skipped, Mark::Waiting],
        ),
        (
            Event::Replied { effect: EffectId(1), reply: Box::new(EffectReply::Slept) },
            [Mark::Done, Mark::Skipped, Mark::Running],
        ),
        (Event::RunFinished(serde_json::from_str(end).unwrap()), [Mark::Done, Mark::Skipped, Mark::Failed]),
    ];
    let mut path = Path::default();
    for (event, expected) in steps {
        path.observe(&event);
        let drawing = Drawing::of(workflow.ir(), Some(&path));
        let marks: Vec<Mark> = drawing.nodes.iter().map(|node| node.mark).collect();
        assert_eq!(marks, expected, "{event:?}");
        let (svg, mermaid, dot) = (drawing.svg().unwrap(), drawing.mermaid(), drawing.dot());
        for mark in expected.into_iter().filter(|mark| *mark != Mark::Plain) {
            let tone = mark.tone();
            assert!(svg.contains(&format!("class=\"box {}\"", tone.name)), "{svg}");
            assert!(mark.word().is_none_or(|word| svg.contains(&format!(">{word}<"))), "{svg}");
            assert!(mermaid.contains(&format!(":::{}", tone.name)), "{mermaid}");
            assert!(dot.contains(&format!("#{:06x}", tone.fill)), "{dot}");
        }
    }
}

#[test]
fn every_colour_of_a_picture_has_one_for_dark_pages_and_no_two_states_share_theirs() {
    let svg = drawing(LOOP).svg().unwrap();
    assert!(svg.contains("@media (prefers-color-scheme: dark)") && svg.contains("class=\"paper\""), "{svg}");
    for (at, tone) in TONES.iter().enumerate() {
        assert!(svg.contains(&format!(".{} {{ stroke: #{:06x} }}", tone.name, tone.dark_line)), "{}", tone.name);
        for other in &TONES[at + 1..] {
            assert!(tone.line != other.line && tone.dark_line != other.dark_line && tone.name != other.name);
        }
    }
    // Nothing is painted that a dark page would leave light.
    let painted = svg.lines().filter(|line| line.contains("fill=\"") && !line.starts_with("<text"));
    for line in painted {
        assert!(line.contains("class=\""), "{line}");
    }
}
