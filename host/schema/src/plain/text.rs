//! A text checked as it is read, without making the value that it spells.

use super::{PartRule, Plain, Types};
use opcell_types::value::{MAX_DEPTH, Number};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Names that must be there, at most, for one bit each to say which of them were.
const MAX_REQUIRED: usize = 64;

impl Plain {
    /// Returns `true` if JSON text is one value that fits for certain, as [`Plain::fits`] says of the value that it
    /// spells. A member that is there twice must fit both times, for whoever reads the text may take either.
    pub(crate) fn fits_text(&self, text: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(text);
        Part { of: PartRule::Plain(self), depth: 0 }.deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }
}

/// One value of the text.
struct Part<'a> {
    of: PartRule<'a>,
    /// The number of aggregates around it.
    depth: u32,
}

/// It cannot be told here; the validator says why.
fn unsure<T, E: Error>() -> Result<T, E> {
    Err(E::custom(""))
}

impl<'a> Part<'a> {
    /// Continues if the value may be of this type.
    fn is<E: Error>(&self, one: u8) -> Result<(), E> {
        match self.of {
            PartRule::Plain(plain) if plain.types.is_none_or(|types| types.has(one)) => Ok(()),
            PartRule::Anything => Ok(()),
            PartRule::Plain(_) | PartRule::Nothing => unsure(),
        }
    }

    /// The same of a value that is not a text.
    fn is_no_text<E: Error>(&self, one: u8) -> Result<(), E> {
        self.is(one)?;
        if self.texts().is_some() { unsure() } else { Ok(()) }
    }

    fn number<E: Error>(&self, number: Number) -> Result<(), E> {
        self.is_no_text(Types::of_number(number))?;
        match self.of {
            PartRule::Plain(plain) if !plain.holds(number) => unsure(),
            _ => Ok(()),
        }
    }

    /// The texts, one of which the value must be.
    fn texts(&self) -> Option<&'a [Box<str>]> {
        match self.of {
            PartRule::Plain(plain) => plain.texts.as_deref(),
            PartRule::Anything | PartRule::Nothing => None,
        }
    }

    /// Returns the number of aggregates around the parts of this one.
    fn aggregate<E: Error>(&self, one: u8) -> Result<u32, E> {
        self.is_no_text(one)?;
        if self.depth < MAX_DEPTH { Ok(self.depth + 1) } else { unsure() }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.is_no_text(Types::NULL)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.is_no_text(Types::BOOLEAN)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(Number::from(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(Number::from(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.number(Number::from(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.is(Types::STRING)?;
        match self.texts() {
            Some(texts) if !texts.iter().any(|one| **one == *text) => unsure(),
            _ => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.aggregate(Types::ARRAY)?;
        let of = match self.of {
            PartRule::Plain(plain) => plain.items.as_deref().map_or(PartRule::Anything, PartRule::Plain),
            of => of,
        };
        while items.next_element_seed(Part { of, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let depth = self.aggregate(Types::OBJECT)?;
        let required = match self.of {
            PartRule::Plain(plain) => plain.required.as_slice(),
            PartRule::Anything | PartRule::Nothing => &[],
        };
        if required.len() > MAX_REQUIRED {
            return unsure();
        }
        let mut there = 0_u64;
        while let Some((of, which)) = members.next_key_seed(Name { of: self.of, required })? {
            there |= which;
            members.next_value_seed(Part { of, depth })?;
        }
        if there.count_ones() as usize == required.len() { Ok(()) } else { unsure() }
    }
}

/// The name of a member: what the member must fit, and a bit for each of the required names that it is.
struct Name<'a> {
    of: PartRule<'a>,
    required: &'a [Box<str>],
}

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = (PartRule<'a>, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = (PartRule<'a>, u64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let mut which = 0;
        for (at, required) in self.required.iter().enumerate() {
            which |= u64::from(**required == *name) << at;
        }
        let of = match self.of {
            PartRule::Plain(plain) => plain.of_member(name),
            of => of,
        };
        Ok((of, which))
    }
}
