//! Calls that the cells of effects make.

use super::{Change, missing};
use crate::{
    call::Reply,
    event::{AskedInnerCall, EffectId, FrameId, InnerRequest, Timestamp},
    state::{Ask, InnerApproval, InnerCalls, State},
};
use opcell_types::{Digest, Value};

impl State {
    pub(super) fn start_inner_calls(&mut self, effect: EffectId, seed: &Digest) -> Change {
        let pending = self.pending_mut(effect)?;
        if pending.inner.is_some() {
            return missing(format!("effect {effect} as one without inner calls"));
        }
        pending.inner = Some(Box::new(InnerCalls::new(seed.clone())));
        Ok(())
    }

    pub(super) fn request_inner_call(&mut self, effect: EffectId, call: &InnerRequest) -> Change {
        let place = call.place;
        match self.inner_calls_mut(effect)?.request(call) {
            true => Ok(()),
            false => missing(format!("place {place} of effect {effect}")),
        }
    }

    pub(super) fn reply_inner_call(&mut self, effect: EffectId, place: u32, reply: &Reply<Value>) -> Change {
        match self.inner_calls_mut(effect)?.reply(place, reply) {
            true => Ok(()),
            false => missing(format!("call {place} of effect {effect} as one that has not ended")),
        }
    }

    /// A cell waits for its timers, of which at least one has not ended.
    pub(super) fn put_cell_to_sleep(&mut self, effect: EffectId, until: Timestamp) -> Change {
        match self.inner_calls_mut(effect)?.sleep(until) {
            true => Ok(()),
            false => missing(format!("a timer of effect {effect}")),
        }
    }

    fn inner_calls_mut(&mut self, effect: EffectId) -> Change<&mut InnerCalls> {
        let pending = self.pending_mut(effect)?;
        match &mut pending.inner {
            Some(inner) => Ok(inner),
            None => missing(format!("effect {effect} as one with inner calls")),
        }
    }

    /// A person is asked about a call of a cell: until the answer comes, the cell is not run.
    pub(super) fn ask_about_inner_call(&mut self, frame: FrameId, asked: &AskedInnerCall) -> Change {
        let AskedInnerCall { effect, place, .. } = asked;
        let pending = self.pending_mut(*effect)?;
        // Several calls of one cell may wait at once.
        let is_idle = !pending.in_doubt || pending.is_asking();
        match pending.inner.as_mut().filter(|inner| pending.frame == frame && is_idle && inner.may_ask(*place)) {
            Some(inner) => {
                inner.ask();
                pending.in_doubt = true;
                Ok(())
            }
            None => missing(format!("place {place} of effect {effect}")),
        }
    }

    /// Hands the answers about calls of cells to them: the cells are run again when they wait for no other.
    pub(super) fn settle_inner_calls(&mut self, frame: FrameId) -> Change {
        let now = self.now;
        let talk = self.conversation_mut(frame)?;
        let is_settled = |ask: &mut Ask| ask.of.inner.is_some() && ask.answer.is_some();
        let settled: Vec<Ask> = talk.asks.extract_if(.., is_settled).collect();
        for ask in settled {
            let Some(approval) = InnerApproval::of(&ask) else { continue };
            let talk = self.conversation_mut(frame)?;
            let is_of_cell = |of: &AskedInnerCall| of.effect == approval.asked.effect;
            let asks = talk.asks.iter().any(|ask| ask.of.inner.as_deref().is_some_and(is_of_cell));
            if approval.answer.is_err()
                && let Some(request) = ask.request(talk)
            {
                let refused = talk.what_is_run(&request);
                talk.refused.push(refused);
            }
            // The effect may have ended for another reason.
            let Some(pending) = self.effects.get_mut(&approval.asked.effect) else { continue };
            if let Some(inner) = &mut pending.inner {
                inner.settle_question(approval, asks);
            }
            pending.in_doubt = pending.is_asking();
            // The time in which a person thinks is not the step's.
            if let Some(work) = self.frame_mut(frame)?.work_mut() {
                work.since = work.since.plus_ms(now.ms_since(ask.at)).min(now);
            }
        }
        Ok(())
    }
}
