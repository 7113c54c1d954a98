//! Reading `[limits]`, and quantities elsewhere.

use super::{Checker, span_of};
use crate::config::{LimitSpans, text::Quantity};
use indexmap::IndexMap;
use opcell_engine::ValueLimits;
use opcell_sandbox::{
    grants::FilesGrant,
    limits::{LimitError, LimitRequest, TABLE, Unit},
};
use opcell_types::{ByteSize, Milliseconds, value};
use serde_spanned::Spanned;

/// The most that a cell may leave in place.
const MAX_KEEP_RESIDENT: u64 = 64 << 20;

impl Checker<'_> {
    /// The limits of a run's values, which are the host's and no plugin's.
    pub(super) fn values(&mut self, limits: &mut IndexMap<Spanned<String>, Spanned<Quantity>>) -> ValueLimits {
        let mut values = ValueLimits::default();
        for (key, slot) in [("value-bytes", &mut values.bytes), ("run-value-bytes", &mut values.run_bytes)] {
            let at = limits.keys().position(|written| written.get_ref() == key);
            let written = at.and_then(|at| limits.shift_remove_index(at)).map(|(_, written)| written);
            let Some(most) = self.quantity(written.as_ref(), Unit::Bytes, key, *slot) else { continue };
            match written {
                Some(written) if most == 0 || (key == "value-bytes" && most > value::MAX_BYTES) => {
                    let most = if key == "value-bytes" {
                        format!(" and at most {}", Unit::Bytes.show(value::MAX_BYTES))
                    } else {
                        String::new()
                    };
                    let message = format!("`{key}` must be at least 1 byte{most}");
                    self.error("invalid-limit", span_of(&written), message, None);
                }
                _ => *slot = most,
            }
        }
        values
    }

    /// A plugin's own limits lower what the project allows. Raising it takes a key of its own, so
    /// that no one does it by accident.
    pub(super) fn check_ceiling(
        &mut self,
        plugin: &str,
        limits: &IndexMap<Spanned<String>, Spanned<Quantity>>,
        ceiling: &LimitRequest,
    ) {
        for (key, value) in limits {
            let Some(spec) = TABLE.iter().find(|spec| spec.key == key.get_ref()) else { continue };
            let Ok(asked) = quantity(value.get_ref(), spec.unit, spec.key) else { continue };
            let most = ceiling.get(spec.key).unwrap_or(spec.default);
            if asked > most && asked <= spec.maximum {
                let message = format!("`{}` is above its ceiling of {}", spec.key, spec.unit.show(most));
                let help = format!(
                    "raise `{0}` in [limits] for all plugins, or for this one in [plugins.{plugin}.ceiling]",
                    spec.key
                );
                self.error("limit-above-ceiling", span_of(value), message, Some(help));
            }
        }
    }

    pub(super) fn limits(&mut self, limits: IndexMap<Spanned<String>, Spanned<Quantity>>) -> LimitRequest {
        let mut request = LimitRequest::default();
        for (key, value) in limits {
            let set = match value.get_ref() {
                Quantity::Number(value) => request.set(key.get_ref(), *value),
                Quantity::Text(text) => request.set_text(key.get_ref(), text),
                Quantity::Other(_) => request.set_text(key.get_ref(), ""),
            };
            match set {
                Ok(()) => {}
                Err(error @ LimitError::Unknown { .. }) => {
                    self.error("unknown-key", span_of(&key), error.to_string(), None)
                }
                Err(error) => self.error("invalid-limit", span_of(&value), error.to_string(), other_unit(&error)),
            }
        }
        request
    }

    /// Bytes that may be written; the default where nothing is said.
    pub(super) fn quota(&mut self, quota: Option<&Spanned<Quantity>>) -> Option<u64> {
        self.quantity(quota, Unit::Bytes, "quota", FilesGrant::DEFAULT_WRITE_QUOTA)
    }

    /// The memory that cells of interpreters leave in place, if the project says it.
    pub(super) fn keep_resident(&mut self, written: Option<&Spanned<Quantity>>) -> Option<usize> {
        let bytes = self.quantity(Some(written?), Unit::Bytes, "keep-resident", 0)?;
        if bytes <= MAX_KEEP_RESIDENT {
            return usize::try_from(bytes).ok();
        }
        let message = format!("`keep-resident` is {}, more than 64 MiB", Unit::Bytes.show(bytes));
        let help = "write at most `64 MiB`: more than the interpreters begin with gains nothing".to_owned();
        self.error("invalid-limit", span_of(written?), message, Some(help));
        None
    }

    /// A quantity under `key`; the default where nothing is said.
    pub(in crate::config) fn quantity(
        &mut self,
        written: Option<&Spanned<Quantity>>,
        unit: Unit,
        key: &'static str,
        default: u64,
    ) -> Option<u64> {
        let Some(written) = written else { return Some(default) };
        let read = quantity(written.get_ref(), unit, key);
        read.map_err(|error| self.error("invalid-limit", span_of(written), error.to_string(), other_unit(&error))).ok()
    }
}

/// The quantity that was meant by one whose unit is spelt otherwise.
fn other_unit(error: &LimitError) -> Option<String> {
    let LimitError::NotAQuantity { text, expected, .. } = error else { return None };
    let problem = match *expected {
        ByteSize::EXPECTED => text.parse::<ByteSize>().err()?,
        Milliseconds::EXPECTED => text.parse::<Milliseconds>().err()?,
        _ => return None,
    };
    let problem = problem.to_string();
    let (_, meant) = problem.rsplit_once("; did you mean ")?;
    Some(format!("did you mean {meant}"))
}

pub(super) fn limit_spans(limits: &IndexMap<Spanned<String>, Spanned<Quantity>>) -> LimitSpans {
    let known = |key: &str| TABLE.iter().find(|spec| spec.key == key).map(|spec| spec.key);
    limits.iter().filter_map(|(key, value)| Some((known(key.get_ref())?, span_of(value)))).collect()
}

pub(super) fn quantity(written: &Quantity, unit: Unit, key: &'static str) -> Result<u64, LimitError> {
    match written {
        Quantity::Number(number) => Ok(*number),
        Quantity::Text(text) => unit.parse(key, text),
        Quantity::Other(_) => unit.parse(key, ""),
    }
}
