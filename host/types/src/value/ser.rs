//! Anything that can be written, as a [`Value`], without a text or another tree in between.

use super::{Map, Number, Object, Shape, Text, Value};
use serde::ser::{self, Serialize, Serializer};
use std::{cell::RefCell, fmt};

/// An error about data that a value cannot hold: a key that is not a string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unrepresentable(String);

impl ser::Error for Unrepresentable {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self(problem.to_string())
    }
}

type Written<T = Value> = Result<T, Unrepresentable>;

impl Value {
    /// Returns the value of the JSON that `of` would be written as. Numbers that JSON cannot hold stay what they are.
    ///
    /// # Errors
    /// When a key is not a string, or `of` itself refuses.
    pub fn of<T: Serialize + ?Sized>(of: &T) -> Result<Self, Unrepresentable> {
        of.serialize(ToValue)
    }
}

struct ToValue;

/// Items of a list, perhaps the content of a variant.
struct Items {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

/// Entries of a map.
struct Entries {
    entries: Map,
    key: Option<Text>,
}

/// Fields of a struct, perhaps the content of a variant. Their names are the program's own: structs that are written
/// often share their shape.
struct Fields {
    variant: Option<&'static str>,
    keys: Vec<&'static str>,
    values: Vec<Value>,
}

/// The maximum number of shapes of structs that a thread remembers.
const MAX_SHAPES: usize = 64;

/// The names of a struct's fields, and their shape.
type Known = (Box<[&'static str]>, Shape);

thread_local! {
    static SHAPES: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// The shape of a struct's fields, which are never there twice.
fn shape_of(keys: &[&'static str]) -> Shape {
    // One name has one address, or sometimes two: then there are two shapes.
    let same =
        |known: &[&'static str]| known.len() == keys.len() && known.iter().zip(keys).all(|(a, b)| std::ptr::eq(*a, *b));
    SHAPES.with_borrow_mut(|shapes| {
        if let Some((_, shape)) = shapes.iter().find(|(known, _)| same(known)) {
            return shape.clone();
        }
        let shape = Shape::new(keys.iter().copied());
        if shapes.len() >= MAX_SHAPES {
            shapes.clear();
        }
        shapes.push((keys.into(), shape.clone()));
        shape
    })
}

impl Fields {
    fn new(variant: Option<&'static str>, len: usize) -> Self {
        Self { variant, keys: Vec::with_capacity(len), values: Vec::with_capacity(len) }
    }

    fn insert<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written<()> {
        self.values.push(Value::of(value)?);
        self.keys.push(key);
        Ok(())
    }

    fn done(self) -> Value {
        tagged(self.variant, Value::Object(Object::of_shape(shape_of(&self.keys), self.values)))
    }
}

fn tagged(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        Some(variant) => Value::object([(variant, value)]),
        None => value,
    }
}

impl Items {
    fn new(variant: Option<&'static str>, len: usize) -> Self {
        Self { variant, items: Vec::with_capacity(len) }
    }

    fn push<T: Serialize + ?Sized>(&mut self, item: &T) -> Written<()> {
        self.items.push(Value::of(item)?);
        Ok(())
    }

    fn done(self) -> Value {
        tagged(self.variant, Value::from(self.items))
    }
}

impl Entries {
    fn new(len: usize) -> Self {
        Self { entries: Map::with_capacity(len), key: None }
    }

    fn insert<T: Serialize + ?Sized>(&mut self, key: impl Into<Text>, value: &T) -> Written<()> {
        self.entries.insert(key.into(), Value::of(value)?);
        Ok(())
    }

    fn done(self) -> Value {
        Value::from(self.entries)
    }
}

impl Serializer for ToValue {
    type Ok = Value;
    type Error = Unrepresentable;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Entries;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    fn serialize_bool(self, v: bool) -> Written {
        Ok(Value::Bool(v))
    }

    fn serialize_i8(self, v: i8) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Written {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Written {
        Ok(Value::from(v))
    }

    fn serialize_u8(self, v: u8) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Written {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Written {
        Ok(Value::from(Number::from(v)))
    }

    fn serialize_f32(self, v: f32) -> Written {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Written {
        Ok(Value::from(v))
    }

    fn serialize_char(self, v: char) -> Written {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Written {
        Ok(Value::from(v))
    }

    fn serialize_bytes(self, v: &[u8]) -> Written {
        Ok(Value::array(v.iter().map(|byte| Value::from(i64::from(*byte)))))
    }

    fn serialize_none(self) -> Written {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Written {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        Ok(tagged(Some(variant), Value::of(value)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Written<Items> {
        Ok(Items::new(None, len.unwrap_or(0)))
    }

    fn serialize_tuple(self, len: usize) -> Written<Items> {
        Ok(Items::new(None, len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Written<Items> {
        Ok(Items::new(None, len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Written<Items> {
        Ok(Items::new(Some(variant), len))
    }

    fn serialize_map(self, len: Option<usize>) -> Written<Entries> {
        Ok(Entries::new(len.unwrap_or(0)))
    }

    fn serialize_struct(self, _name: &'static str, len: usize) -> Written<Fields> {
        Ok(Fields::new(None, len))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Written<Fields> {
        Ok(Fields::new(Some(variant), len))
    }
}

/// The list methods that serde calls by four names.
macro_rules! items {
    ($($part:ident $method:ident),+) => {$(
        impl ser::$part for Items {
            type Ok = Value;
            type Error = Unrepresentable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Written<()> {
                self.push(value)
            }

            fn end(self) -> Written {
                Ok(self.done())
            }
        }
    )+};
}

items!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// And by two, one object.
macro_rules! fields {
    ($($part:ident),+) => {$(
        impl ser::$part for Fields {
            type Ok = Value;
            type Error = Unrepresentable;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written<()> {
                self.insert(key, value)
            }

            fn end(self) -> Written {
                Ok(self.done())
            }
        }
    )+};
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Entries {
    type Ok = Value;
    type Error = Unrepresentable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written<()> {
        self.key = Some(match Value::of(key)? {
            Value::String(text) => text,
            other @ (Value::Number(_) | Value::Bool(_)) => other.to_json().into(),
            other => return Err(ser::Error::custom(format!("a key must be a string, got {}", other.to_json()))),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written<()> {
        match self.key.take() {
            Some(key) => self.insert(key, value),
            None => Err(ser::Error::custom("a value came before its key")),
        }
    }

    fn end(self) -> Written {
        Ok(self.done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    enum Shape {
        Plain,
        Round(f64),
        Pair(u8, i64),
        Named { big: u64, nothing: Option<()> },
    }

    #[derive(Serialize)]
    struct All {
        shapes: Vec<Shape>,
        by_number: BTreeMap<u32, char>,
        pair: (bool, &'static str),
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u8>,
        value: Value,
    }

    #[test]
    fn a_value_is_what_the_json_text_would_be_read_as() {
        let all = All {
            shapes: vec![
                Shape::Plain,
                Shape::Round(0.5),
                Shape::Pair(1, -2),
                Shape::Named { big: u64::MAX, nothing: None },
            ],
            by_number: [(7, 'x')].into_iter().collect(),
            pair: (true, "text"),
            left_out: None,
            value: Value::object([("k", Value::Null)]),
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(Value::of(&all).unwrap(), Value::from_json(&text).unwrap(), "{text}");
    }

    #[test]
    fn structs_of_one_kind_share_their_shape() {
        let one = || Value::of(&Shape::Named { big: 1, nothing: None }).unwrap();
        let shape = |value: &Value| value.get("named").unwrap().as_object().unwrap().shape().clone();
        assert!(shape(&one()).is_same(&shape(&one())));
    }

    #[test]
    fn a_key_that_is_no_text_is_refused() {
        let odd: BTreeMap<Vec<u8>, u8> = [(vec![1], 2)].into_iter().collect();
        assert_eq!(Value::of(&odd).unwrap_err().to_string(), "a key must be a string, got [1]");
    }
}
