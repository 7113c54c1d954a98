//! Reading: from JSON text, or from anything that serde reads, straight into a value.

use super::{
    Array, MAX_DEPTH, Number, Object, Text, Value, rounded_integer, rounded_message,
    shape::{Beginning, Shapes},
};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

impl Value {
    /// Parses JSON text.
    ///
    /// # Errors
    /// When the text is not one JSON value, nests deeper than [`MAX_DEPTH`], or has an integer that would be rounded.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        exact_only(text.as_bytes())?;
        serde_json::from_str(text)
    }

    /// Parses JSON text that may not be UTF-8.
    ///
    /// # Errors
    /// As [`Value::from_json`], and when it is not UTF-8.
    pub fn from_json_slice(text: &[u8]) -> Result<Self, serde_json::Error> {
        exact_only(text)?;
        serde_json::from_slice(text)
    }
}

/// Refuses a text with an integer that would be rounded.
fn exact_only(json: &[u8]) -> Result<(), serde_json::Error> {
    let Some(place) = rounded_integer(json) else { return Ok(()) };
    let digits = String::from_utf8_lossy(json.get(place).unwrap_or_default());
    Err(Error::custom(rounded_message(&digits)))
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut reader = Reader { shapes: Shapes::take(), values: Vec::new() };
        let read = Part { reader: &mut reader, depth: 0 }.deserialize(deserializer);
        reader.shapes.give_back();
        read
    }
}

/// The state that one reading shares: the shapes seen so far, and the parts of aggregates that are not complete.
struct Reader {
    shapes: Shapes,
    values: Vec<Value>,
}

/// One value of what is being read.
struct Part<'a> {
    reader: &'a mut Reader,
    /// The number of aggregates around it.
    depth: u32,
}

impl Part<'_> {
    fn too_deep<E: Error>(&self) -> Result<(), E> {
        if self.depth < MAX_DEPTH {
            return Ok(());
        }
        Err(E::custom(format!("values nest at most {MAX_DEPTH} levels deep; this one nests deeper")))
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::from(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::from(Number::from(n)))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::from(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.too_deep()?;
        let (reader, depth) = (self.reader, self.depth + 1);
        let from = reader.values.len();
        while let Some(item) = seq.next_element_seed(Part { reader, depth })? {
            reader.values.push(item);
        }
        Ok(Value::Array(Array::drain(&mut reader.values, from)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.too_deep()?;
        let (reader, depth) = (self.reader, self.depth + 1);
        let from = reader.values.len();
        let mut at = Shapes::start();
        while let Some(key) = map.next_key_seed(Key { shapes: &mut reader.shapes, at })? {
            match key {
                Known::Beginning(next) => at = next,
                Known::Not(key) => return other_object(reader, depth, at, key, from, map),
            }
            let value = map.next_value_seed(Part { reader, depth })?;
            reader.values.push(value);
        }
        Ok(Value::Object(Object::drain(reader.shapes.shape(at), &mut reader.values, from)))
    }
}

/// The rest of an object whose keys are not worth remembering, or are there twice.
fn other_object<'de, A: MapAccess<'de>>(
    reader: &mut Reader,
    depth: u32,
    at: Beginning,
    key: Text,
    from: usize,
    mut map: A,
) -> Result<Value, A::Error> {
    let mut keys: Vec<Text> = reader.shapes.path(at).cloned().collect();
    keys.reverse();
    let mut next = Some(key);
    while let Some(key) = next {
        keys.push(key);
        let value = map.next_value_seed(Part { reader, depth })?;
        reader.values.push(value);
        next = map.next_key::<Text>()?;
    }
    let values = reader.values.split_off(from.min(reader.values.len()));
    Ok(Value::Object(Object::of_keys(keys, values)))
}

enum Known {
    Beginning(Beginning),
    Not(Text),
}

struct Key<'a> {
    shapes: &'a mut Shapes,
    at: Beginning,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Known;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Known, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Known;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    #[inline]
    fn visit_str<E>(self, key: &str) -> Result<Known, E> {
        Ok(match self.shapes.next(self.at, key) {
            Some(next) => Known::Beginning(next),
            None => Known::Not(key.into()),
        })
    }
}
