//! Every limit of a cell, declared once: name, unit, default, largest value, reason.
//!
//! A limit is what remains of three wishes: the operator's ceiling (the default where the operator says nothing), what
//! the plugin's manifest asks for, and what the step allows. The smallest wins, and [`EffectiveLimits`] remembers whose
//! it was.

use opcell_types::{ByteSize, Milliseconds, suggest::did_you_mean};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use std::fmt;

/// The unit of a limit's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; written as `500`, `"500 ms"`, `"30 s"`, `"2 min"`.
    Milliseconds,
    /// Bytes; written as `4096`, `"64 KiB"`, `"1 MiB"`, `"64 MB"`.
    Bytes,
    /// A plain number.
    Count,
}

/// One row of the table of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSpec {
    /// The key in an operator's configuration and in a manifest's `limits`.
    pub key: &'static str,
    /// The unit of the number.
    pub unit: Unit,
    /// The ceiling where the operator says nothing.
    pub default: u64,
    /// The largest ceiling an operator may set.
    pub maximum: u64,
    /// Why there is such a limit, and why the default is what it is.
    pub reason: &'static str,
}

impl LimitSpec {
    /// The smallest value with which a plugin can run at all: of memory one page, of WebAssembly's 64 KiB.
    #[must_use]
    pub fn minimum(&self) -> u64 {
        if self.key == "memory" { 64 * KIB } else { 1 }
    }
}

/// The source of a limit's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// No one: the default.
    Default,
    /// The operator, for all plugins or for this one.
    Operator,
    /// The plugin's manifest asks for less than it could have.
    Plugin,
    /// The step allows less.
    Step,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Operator => "operator",
            Self::Plugin => "plugin",
            Self::Step => "step",
        })
    }
}

/// A limit that cannot be taken as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// No limit has this name.
    #[error("`{key}` is not a limit{}", suggest(.suggestion.as_deref()))]
    Unknown {
        /// The key as it is written.
        key: String,
        /// The nearest name.
        suggestion: Option<String>,
    },
    /// The value is not a quantity of the limit's unit.
    #[error("limit `{key}`: `{text}` is not {expected}")]
    NotAQuantity {
        /// Key of the limit, as in `[limits]`.
        key: &'static str,
        /// The value as it is written.
        text: String,
        /// The form of a valid value.
        expected: &'static str,
    },
    /// The value is less than any plugin can run with, or above what the sandbox can enforce.
    #[error("limit `{key}`: {value} is out of range, expected {expected}")]
    OutOfRange {
        /// Key of the limit, as in `[limits]`.
        key: &'static str,
        /// As understood, with its unit.
        value: String,
        /// The range, with its unit.
        expected: String,
    },
}

fn suggest(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(name) => format!(", did you mean `{name}`?"),
        None => format!("; there are {}", TABLE.iter().map(|spec| spec.key).collect::<Vec<_>>().join(", ")),
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $field:ident, $key:literal, $unit:ident, $default:expr, $maximum:expr;)+) => {
        /// The limits of one cell. Each number is in the unit of its row in [`TABLE`]: milliseconds, bytes or a count.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $field: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// A wish for some of the limits: an operator's ceiling, a manifest's request, a step's allowance.
        ///
        /// Each number is in the [`Unit`] of its row in [`TABLE`]: milliseconds (`wall_time`, `host_call_time`), bytes
        /// (`memory`, and what ends in `_bytes`) or a count. [`set_text`](Self::set_text) reads `64 MiB` and `30 s`.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct LimitRequest {
            $($(#[doc = $doc])+ pub $field: Option<u64>,)+
        }

        /// Every limit, in the order in which people read them.
        pub const TABLE: &[LimitSpec] = &[
            $(LimitSpec { key: $key, unit: Unit::$unit, default: $default, maximum: $maximum, reason: concat!($($doc),+).trim_ascii() },)+
        ];

        impl LimitRequest {
            /// The wish for the limit of this key; `None` as well when there is no such limit.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key {
                    $($key => self.$field,)+
                    _ => None,
                }
            }

            fn slot(&mut self, key: &str) -> Option<(&'static LimitSpec, &mut Option<u64>)> {
                let spec = TABLE.iter().find(|spec| spec.key == key)?;
                match key {
                    $($key => Some((spec, &mut self.$field)),)+
                    _ => None,
                }
            }
        }

        impl Limits {
            /// The value of the limit of this key.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key {
                    $($key => Some(self.$field),)+
                    _ => None,
                }
            }

            fn for_each(&mut self, mut visit: impl FnMut(&'static LimitSpec, &mut u64)) {
                for spec in TABLE {
                    match spec.key {
                        $($key => visit(spec, &mut self.$field),)+
                        _ => {}
                    }
                }
            }
        }
    };
}

limits! {
    /// Wall time of a cell, waiting for the host included: the only limit that ends a plugin which waits forever.
    wall_time, "wall-time", Milliseconds, 30_000, 24 * 3_600_000;
    /// Ticks (10 ms) in which the guest itself was seen running: ends a busy loop long before the wall time when the
    /// host is slow.
    ticks, "ticks", Count, 1_000, 8_640_000;
    /// Instructions, roughly, in the deterministic engine; the other engines do not count them.
    fuel, "fuel", Count, 10_000_000_000, u64::MAX;
    /// Linear memory of all memories together; small guests need 1 to 4 MiB, and one `memory.fill` of 64 MiB still ends
    /// within a tick or two.
    memory, "memory", Bytes, 64 * MIB, GIB;
    /// Table elements of all tables together: each is a pointer on the host.
    table_elements, "table-elements", Count, 20_000, 1_000_000;
    /// Resource handles alive at once: each is host memory that no linear-memory limit sees.
    handles, "handles", Count, 1_000, 100_000;
    /// Calls of host functions: an empty call costs the host some 200 ns, and a loop can make millions.
    host_calls, "host-calls", Count, 10_000, 100_000_000;
    /// Wall time of one call of a host tool or skill; the guest gets a failure `timeout` and can continue.
    host_call_time, "host-call-time", Milliseconds, 20_000, 24 * 3_600_000;
    /// Calls of tools that a cell has in progress at once; further ones wait, in the order in which they were started.
    concurrent_calls, "concurrent-calls", Count, 8, 1_024;
    /// Bytes over the boundary, both directions, all calls of the cell together: the engine's own limit is per call
    /// only.
    boundary_bytes, "boundary-bytes", Bytes, 32 * MIB, 4 * GIB;
    /// The arguments of an operation or judge as JSON text.
    argument_bytes, "argument-bytes", Bytes, 4 * MIB, 64 * MIB;
    /// The most that one call may hand to the host at once: the result of the cell, or the arguments of a host function.
    result_bytes, "result-bytes", Bytes, 4 * MIB, 64 * MIB;
    /// Text of a failure, panic or denial that is kept; the rest is cut, because it may reach a model.
    failure_bytes, "failure-bytes", Bytes, 4 * KIB, MIB;
    /// Log text that the receipt keeps: its end, which has the reason of a failure.
    log_bytes, "log-bytes", Bytes, 64 * KIB, 16 * MIB;
    /// Bytes read from and written to files.
    file_bytes, "file-bytes", Bytes, 64 * MIB, 64 * GIB;
    /// Files and directories open at once.
    open_files, "open-files", Count, 64, 4_096;
    /// Cells of one plugin at once; the next waits, within its wall time.
    concurrent_cells, "concurrent-cells", Count, 16, 1_024;
    /// Calls of one plugin that wait for a cell; one more is refused as `busy` at once, so that overload is seen where
    /// it can be slowed.
    waiting_cells, "waiting-cells", Count, 4_096, 1_000_000;
}

impl LimitRequest {
    /// Sets one wish by its key.
    ///
    /// # Errors
    /// [`LimitError`] when there is no such limit or the value is out of its range.
    pub fn set(&mut self, key: &str, value: u64) -> Result<(), LimitError> {
        let Some((spec, slot)) = self.slot(key) else {
            return Err(LimitError::Unknown {
                key: key.to_owned(),
                suggestion: did_you_mean(key, TABLE.iter().map(|spec| spec.key)).map(str::to_owned),
            });
        };
        let minimum = spec.minimum();
        if !(minimum..=spec.maximum).contains(&value) {
            return Err(LimitError::OutOfRange {
                key: spec.key,
                value: spec.unit.show(value),
                expected: format!("{} to {}", spec.unit.show(minimum), spec.unit.show(spec.maximum)),
            });
        }
        *slot = Some(value);
        Ok(())
    }

    /// Sets one wish by its key from text such as `64 MiB`, `30 s` or `1000`.
    ///
    /// # Errors
    /// [`LimitError`] when there is no such limit, or the text is not a quantity of its unit.
    pub fn set_text(&mut self, key: &str, text: &str) -> Result<(), LimitError> {
        let Some(spec) = TABLE.iter().find(|spec| spec.key == key) else { return self.set(key, 1) };
        self.set(key, spec.unit.parse(spec.key, text)?)
    }

    /// This wish, and where it says nothing, the other's.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        for spec in TABLE {
            if let Some((_, slot)) = merged.slot(spec.key) {
                *slot = slot.or(other.get(spec.key));
            }
        }
        merged
    }

    /// The tighter of both, limit by limit; what only one of them says counts.
    #[must_use]
    pub fn tighter(&self, other: &Self) -> Self {
        let mut tighter = self.or(other);
        for spec in TABLE {
            if let (Some(a), Some(b)) = (self.get(spec.key), other.get(spec.key))
                && let Some((_, slot)) = tighter.slot(spec.key)
            {
                *slot = Some(a.min(b));
            }
        }
        tighter
    }

    /// This wish, nowhere above the ceiling, whose gaps are the defaults.
    #[must_use]
    pub fn within(&self, ceiling: &Self) -> Self {
        let mut within = Self::default();
        for spec in TABLE {
            if let Some((_, slot)) = within.slot(spec.key) {
                let most = ceiling.get(spec.key);
                *slot = match self.get(spec.key) {
                    Some(asked) => Some(asked.min(most.unwrap_or(spec.default))),
                    None => most,
                };
            }
        }
        within
    }
}

impl Unit {
    fn expected(self) -> &'static str {
        match self {
            Self::Milliseconds => Milliseconds::EXPECTED,
            Self::Bytes => ByteSize::EXPECTED,
            Self::Count => "a whole number",
        }
    }

    /// Reads a quantity; `key` is what errors call it.
    ///
    /// # Errors
    /// [`LimitError::NotAQuantity`].
    pub fn parse(self, key: &'static str, text: &str) -> Result<u64, LimitError> {
        let read = match self {
            Self::Milliseconds => text.parse().map(|Milliseconds(time)| time).ok(),
            Self::Bytes => text.parse().map(|ByteSize(size)| size).ok(),
            Self::Count => text.trim().replace('_', "").parse().ok(),
        };
        read.ok_or_else(|| LimitError::NotAQuantity { key, text: text.to_owned(), expected: self.expected() })
    }

    /// A quantity as a person reads it.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Bytes => ByteSize(value).to_string(),
            Self::Milliseconds => Milliseconds(value).to_string(),
            Self::Count => value.to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for LimitRequest {
    /// From a map of keys to numbers or texts with a unit; an unknown key is an error with a suggestion.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = indexmap::IndexMap::<String, Quantity>::deserialize(deserializer)?;
        let mut request = Self::default();
        for (key, quantity) in map {
            match quantity {
                Quantity::Number(value) => request.set(&key, value),
                Quantity::Text(text) => request.set_text(&key, &text),
            }
            .map_err(D::Error::custom)?;
        }
        Ok(request)
    }
}

impl Serialize for LimitRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for spec in TABLE {
            if let Some(value) = self.get(spec.key) {
                map.serialize_entry(spec.key, &value)?;
            }
        }
        map.end()
    }
}

/// One effective limit, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedLimit {
    /// The limit's key.
    pub key: &'static str,
    /// In the limit's unit.
    pub value: u64,
    /// With its unit.
    pub shown: String,
    /// The source of the value.
    pub source: Source,
    /// Why there is such a limit.
    pub reason: &'static str,
}

/// The limits of a plugin's cells, and the source of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveLimits {
    /// The values.
    pub limits: Limits,
    sources: Vec<Source>,
}

impl EffectiveLimits {
    /// Operator ceiling ∧ plugin request.
    #[must_use]
    pub fn resolve(operator: &LimitRequest, plugin: &LimitRequest) -> Self {
        let mut limits = Limits::default();
        let mut sources = Vec::with_capacity(TABLE.len());
        limits.for_each(|spec, value| {
            let mut source = Source::Default;
            if let Some(ceiling) = operator.get(spec.key) {
                (*value, source) = (ceiling, Source::Operator);
            }
            if let Some(asked) = plugin.get(spec.key).filter(|asked| *asked < *value) {
                (*value, source) = (asked, Source::Plugin);
            }
            sources.push(source);
        });
        Self { limits, sources }
    }

    /// ∧ what a step allows.
    #[must_use]
    pub fn narrowed(&self, step: &LimitRequest) -> Self {
        let mut narrowed = self.clone();
        let mut sources = narrowed.sources.iter_mut();
        narrowed.limits.for_each(|spec, value| {
            let source = sources.next();
            if let Some(allowed) = step.get(spec.key).filter(|allowed| *allowed < *value) {
                *value = allowed;
                if let Some(source) = source {
                    *source = Source::Step;
                }
            }
        });
        narrowed
    }

    /// Every limit with its value and its source.
    #[must_use]
    pub fn explain(&self) -> Vec<ExplainedLimit> {
        TABLE
            .iter()
            .zip(&self.sources)
            .map(|(spec, source)| {
                let value = self.limits.get(spec.key).unwrap_or(spec.default);
                ExplainedLimit {
                    key: spec.key,
                    value,
                    shown: spec.unit.show(value),
                    source: *source,
                    reason: spec.reason,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(json: &str) -> Result<LimitRequest, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_default_is_within_its_own_range_and_has_a_reason() {
        for spec in TABLE {
            assert!(spec.default > 0 && spec.default <= spec.maximum, "{}", spec.key);
            assert!(spec.reason.len() > 20, "{}", spec.key);
        }
    }

    #[test]
    fn the_operator_may_raise_a_ceiling_and_a_plugin_only_lower_it() {
        let operator = request(r#"{"memory": "128 MiB", "wall-time": "10 s"}"#).unwrap();
        let plugin = request(r#"{"memory": "1 GiB", "wall-time": 5000, "handles": 10}"#).unwrap();
        let effective = EffectiveLimits::resolve(&operator, &plugin);
        assert_eq!(effective.limits.memory, 128 * MIB);
        assert_eq!(effective.limits.wall_time, 5_000);
        let source = |key| effective.explain().into_iter().find(|row| row.key == key).unwrap().source;
        assert_eq!(
            [source("memory"), source("wall-time"), source("handles"), source("ticks")],
            [Source::Operator, Source::Plugin, Source::Plugin, Source::Default]
        );
    }

    #[test]
    fn a_step_narrows_and_never_widens() {
        let effective = EffectiveLimits::resolve(&LimitRequest::default(), &LimitRequest::default());
        let narrowed = effective.narrowed(&request(r#"{"wall-time": "1 s", "memory": "512 MiB"}"#).unwrap());
        assert_eq!(narrowed.limits.wall_time, 1_000);
        assert_eq!(narrowed.limits.memory, 64 * MIB);
        assert_eq!(narrowed.explain()[0].source, Source::Step);
    }

    #[test]
    fn a_wish_within_a_ceiling_never_exceeds_it() {
        let ceiling = request(r#"{"memory": "128 MiB", "wall-time": "10 s"}"#).unwrap();
        let wish = request(r#"{"memory": "1 GiB", "wall-time": "5 s", "ticks": 5000}"#).unwrap();
        let within = wish.within(&ceiling);
        assert_eq!((within.memory, within.wall_time), (Some(128 * MIB), Some(5_000)));
        assert_eq!(within.ticks, Some(1_000), "the default is the ceiling where nothing is said");
        assert_eq!(within.handles, None);
    }

    #[test]
    fn potatoes_are_not_a_size() {
        let error = request(r#"{"memory": "12 potatoes"}"#).unwrap_err();
        assert!(error.contains("limit `memory`: `12 potatoes` is not a size such as"), "{error}");
    }

    #[test]
    fn an_unknown_limit_is_an_error_with_a_suggestion() {
        let error = request(r#"{"wall-tme": 5}"#).unwrap_err();
        assert!(error.contains("`wall-tme` is not a limit, did you mean `wall-time`?"), "{error}");
    }

    #[test]
    fn zero_and_more_than_the_sandbox_can_enforce_are_out_of_range() {
        for text in [r#"{"handles": 0}"#, r#"{"memory": "4 GiB"}"#, r#"{"memory": "99999999999999999999 GiB"}"#] {
            assert!(request(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_are_shown_in_the_largest_unit_that_loses_nothing() {
        assert_eq!(Unit::Bytes.show(64 * MIB), "64 MiB");
        assert_eq!(Unit::Bytes.show(1_500), "1500 B");
        assert_eq!(Unit::Milliseconds.show(30_000), "30 s");
        assert_eq!(Unit::Count.show(7), "7");
    }
}
