//! What a journal holds, an event in each line: it is read, folded and gone on with, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_core::{
    decide::decide,
    event::{Event, Recorded, Timestamp},
    state::State,
};

fuzz_target!(|text: &str| {
    let mut state = State::default();
    for (seq, line) in (1..).zip(text.lines()) {
        let Ok(event) = serde_json::from_str::<Event>(line) else { return };
        let written = event.to_json();
        let again: Event = serde_json::from_str(&written).expect("what was written is read again");
        assert_eq!(again.to_json(), written, "changed by writing and reading");
        if state.apply(&Recorded::new(seq, Timestamp::default(), event)).is_err() {
            return;
        }
    }
    let first = format!("{:?}", decide(&state));
    assert_eq!(format!("{:?}", decide(&state)), first, "the same state, decided otherwise");
    let _ = state.outcome();
});
