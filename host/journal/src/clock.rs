//! Tells a clock that jumped from one that is right, by the times that a journal has recorded.
//!
//! Retention by age believes the clock: one command whose clock is ten years ahead would delete every ended run. So a
//! journal keeps an anchor, the newest time that it takes as true, and follows its own records from there for as long as
//! no pause between two of them is longer than [`MAX_PAUSE`]. A clock that lies before that time, or further than such a
//! pause after it, is in doubt: nothing is deleted until a person says that it is right, or it has said the same for
//! [`DOUBT`].

/// The longest time without any record after which a clock is still taken as true: a server may be idle, or switched
/// off, for a month.
pub const MAX_PAUSE: i64 = 30 * DAY;

/// The time for which a clock in doubt has to go on before it is taken as true: long enough for an operator to see the
/// warning.
pub const DOUBT: i64 = DAY;

/// The time by which a clock may be behind: clocks are corrected, and machines that share a file differ.
const SLACK: i64 = DAY / 24;

const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// The knowledge of a journal about the clock; all times in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAnchor {
    /// The newest time that was taken as true.
    pub trusted_at: i64,
    /// The time of the clock when it was first doubted; `None` while it is not.
    pub doubted_since: Option<i64>,
    /// Recorded times up to this one that lie after the clock were written by a clock that was wrong.
    pub discounted_until: i64,
}

/// A clock that does not agree with the times of a journal's records, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// The time of the clock.
    pub now: i64,
    /// The newest recorded time that is taken as true.
    pub recorded: i64,
}

impl ClockAnchor {
    /// The anchor of a journal that has none yet, from its newest recorded time, if it has any run.
    #[must_use]
    pub fn first(newest: Option<i64>, now: i64) -> Self {
        Self { trusted_at: newest.unwrap_or(now), doubted_since: None, discounted_until: i64::MIN }
    }

    /// Returns `true` for a recorded time that says something about the clock.
    #[must_use]
    pub fn counts(&self, recorded: i64, now: i64) -> bool {
        recorded > self.trusted_at && (recorded <= now || recorded > self.discounted_until)
    }

    /// The newest of recorded times, in ascending order, that is reached from the anchor without a longer pause than
    /// [`MAX_PAUSE`].
    #[must_use]
    pub fn reached(&self, recorded: impl IntoIterator<Item = i64>, now: i64) -> i64 {
        let counted = recorded.into_iter().filter(|time| self.counts(*time, now));
        let reached = counted.scan(self.trusted_at, |last, time| {
            let follows = time.saturating_sub(*last) <= MAX_PAUSE;
            *last = time;
            follows.then_some(time)
        });
        reached.last().unwrap_or(self.trusted_at)
    }

    /// Compares the clock with the newest time that was [reached](Self::reached). Gives the anchor to keep, and the
    /// jump if the clock is in doubt. `newest` is the newest recorded time of all.
    #[must_use]
    pub fn check(self, reached: i64, newest: Option<i64>, now: i64) -> (Self, Option<ClockJump>) {
        let behind = now.saturating_add(SLACK) < reached;
        let ahead = now.saturating_sub(reached) > MAX_PAUSE;
        if !behind && !ahead {
            return (Self { trusted_at: reached.max(now), doubted_since: None, ..self }, None);
        }
        let jump = ClockJump { now, recorded: reached };
        match self.doubted_since.map(|since| (since, now.saturating_sub(since))) {
            Some((_, doubted)) if (DOUBT..=DOUBT + MAX_PAUSE).contains(&doubted) => (self.trust(newest, now), None),
            Some((_, doubted)) if (0..DOUBT).contains(&doubted) => (self, Some(jump)),
            // Not yet doubted, or the clock has jumped again.
            _ => (Self { doubted_since: Some(now), ..self }, Some(jump)),
        }
    }

    /// Takes the clock as true.
    #[must_use]
    pub fn trust(self, newest: Option<i64>, now: i64) -> Self {
        let discounted_until = newest.filter(|newest| *newest > now).map_or(self.discounted_until, |newest| {
            // An earlier mistake may have gone further.
            newest.max(self.discounted_until)
        });
        Self { trusted_at: now, doubted_since: None, discounted_until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000;

    fn anchor() -> ClockAnchor {
        ClockAnchor::first(Some(NOW), NOW)
    }

    fn jumped(now: i64, recorded: i64) -> Option<ClockJump> {
        Some(ClockJump { now, recorded })
    }

    #[test]
    fn a_month_without_a_record_is_no_jump_and_a_longer_one_is() {
        let (kept, jump) = anchor().check(NOW, Some(NOW), NOW + MAX_PAUSE);
        assert_eq!((kept.trusted_at, jump), (NOW + MAX_PAUSE, None));
        let (_, jump) = anchor().check(NOW, Some(NOW), NOW + MAX_PAUSE + 1);
        assert_eq!(jump, jumped(NOW + MAX_PAUSE + 1, NOW));
    }

    #[test]
    fn a_correction_of_an_hour_is_no_jump_and_a_larger_one_is() {
        assert_eq!(anchor().check(NOW, Some(NOW), NOW - SLACK).1, None);
        assert_eq!(anchor().check(NOW, Some(NOW), NOW - SLACK - 1).1, jumped(NOW - SLACK - 1, NOW));
    }

    #[test]
    fn records_carry_the_anchor_as_far_as_they_follow_each_other() {
        let monthly = [1, 2, 3].map(|month| NOW + month * MAX_PAUSE);
        let far = NOW + 300 * MAX_PAUSE;
        assert_eq!(anchor().reached(monthly.into_iter().chain([far, far + 1]), far), monthly[2]);
        assert_eq!(anchor().reached([NOW - 5], NOW), NOW, "older records do not move it");
    }

    #[test]
    fn a_clock_that_stays_is_true_after_a_day_and_one_that_jumps_again_is_not() {
        let far = NOW + 300 * MAX_PAUSE;
        let (doubted, jump) = anchor().check(NOW, Some(NOW), far);
        assert!(jump.is_some());
        let (still, jump) = doubted.check(NOW, Some(far), far + DOUBT - 1);
        assert_eq!((still, jump.is_some()), (doubted, true));
        let (trusted, jump) = still.check(NOW, Some(far), far + DOUBT);
        assert_eq!((trusted.trusted_at, jump), (far + DOUBT, None));
        let again = doubted.check(NOW, Some(NOW), far * 2);
        assert_eq!((again.0.doubted_since, again.1.is_some()), (Some(far * 2), true));
        let (right, jump) = doubted.check(NOW, Some(NOW), NOW + 5);
        assert_eq!((right.doubted_since, jump), (None, None), "a corrected clock is no longer doubted");
    }

    #[test]
    fn records_of_a_wrong_clock_do_not_count_once_the_right_one_is_trusted() {
        let wrong = NOW + 10 * DAY;
        let trusted = anchor().trust(Some(wrong), NOW);
        assert_eq!(trusted.reached([NOW + 5, wrong], NOW + 9), NOW + 5);
        assert_eq!(trusted.check(NOW + 5, Some(wrong), NOW + 9).1, None);
        assert_eq!(trusted.reached([wrong, wrong + DAY], wrong - 1), wrong + DAY, "another mistake counts");
    }
}
