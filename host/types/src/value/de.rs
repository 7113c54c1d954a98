//! Reading types of one's own out of a value, without another tree between them.

use super::{MAX_DEPTH, NumberKind, Value};
use serde::{
    Deserialize, Deserializer,
    de::{
        Error as _, IntoDeserializer, Unexpected, Visitor,
        value::{BorrowedStrDeserializer, MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

/// Why a value is not of a type: serde's words.
pub type Error = serde_json::Error;

impl Value {
    /// Reads a type out of a value, which may lend it its texts. `undefined` is read as `null`, and left out of objects.
    ///
    /// # Errors
    /// When the value is not of the type, in serde's words; when it is nested deeper than values may be.
    ///
    /// # Examples
    /// ```
    /// #[derive(serde::Deserialize)]
    /// struct Order<'a> {
    ///     id: u64,
    ///     #[serde(borrow)]
    ///     item: &'a str,
    /// }
    /// let value = opcell_types::Value::object([("id", 7_u64.into()), ("item", opcell_types::Value::from("radio"))]);
    /// let order: Order<'_> = value.to()?;
    /// assert_eq!((order.id, order.item), (7, "radio"));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn to<'de, T: Deserialize<'de>>(&'de self) -> Result<T, Error> {
        T::deserialize(self)
    }

    fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Undefined | Self::Null => Unexpected::Unit,
            Self::Bool(bool) => Unexpected::Bool(*bool),
            Self::Number(number) => match number.kind() {
                NumberKind::Integer(number) => Unexpected::Signed(number),
                NumberKind::Unsigned(number) => Unexpected::Unsigned(number),
                NumberKind::Float(number) => Unexpected::Float(number),
            },
            Self::String(text) => Unexpected::Str(text),
            Self::Array(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        }
    }

    /// Visitors recurse: the depth is known before they begin.
    fn check_depth(&self) -> Result<(), Error> {
        match self.measure().depth() > 2 * MAX_DEPTH {
            true => Err(Error::custom(format!("a value that nests deeper than {MAX_DEPTH} levels cannot be read"))),
            false => Ok(()),
        }
    }

    fn entries_to_read(&self) -> impl Iterator<Item = (BorrowedStrDeserializer<'_, Error>, &Self)> {
        let entries = self.as_object().into_iter().flat_map(|entries| entries.iter());
        let defined = entries.filter(|(_, value)| !matches!(value, Self::Undefined));
        defined.map(|(key, value)| (BorrowedStrDeserializer::new(key.as_str()), value))
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Undefined | Value::Null => visitor.visit_unit(),
            Value::Bool(bool) => visitor.visit_bool(*bool),
            Value::Number(number) => match number.kind() {
                NumberKind::Integer(number) => visitor.visit_i64(number),
                NumberKind::Unsigned(number) => visitor.visit_u64(number),
                NumberKind::Float(number) if number.is_finite() => visitor.visit_f64(number),
                // As it is written.
                NumberKind::Float(_) => visitor.visit_unit(),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                self.check_depth()?;
                let mut items = SeqDeserializer::new(items.iter());
                let read = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(read)
            }
            Value::Object(_) => {
                self.check_depth()?;
                let mut entries = MapDeserializer::new(self.entries_to_read());
                let read = visitor.visit_map(&mut entries)?;
                entries.end()?;
                Ok(read)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Undefined | Value::Null => visitor.visit_none(),
            Value::Number(number) if matches!(number.kind(), NumberKind::Float(of) if !of.is_finite()) => {
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Value::String(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            Value::Object(_) if self.entries_to_read().count() == 1 => {
                self.check_depth()?;
                visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(self.entries_to_read())))
            }
            _ => Err(Error::invalid_value(self.unexpected(), &"a string, or an object with one key")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Plain,
        Numbered(u8),
        Named { id: Option<i64>, rest: Vec<String> },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Whole {
        kind: Kind,
        #[serde(default)]
        inner: BTreeMap<String, Option<f64>>,
        #[serde(flatten)]
        others: BTreeMap<String, serde_json::Value>,
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn types_are_read_as_from_json_text() {
        for text in [
            r#"{"kind": "plain"}"#,
            r#"{"kind": {"numbered": 7}, "inner": {"a": null, "b": 1.5, "c": 2}, "more": [1, {"x": null}]}"#,
            r#"{"kind": {"named": {"id": null, "rest": ["a", "b"]}}}"#,
            r#"{"kind": {"named": {"rest": []}}, "inner": {}}"#,
        ] {
            assert_eq!(value(text).to::<Whole>().unwrap(), serde_json::from_str(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_not_of_a_type_is_refused_as_from_json_text() {
        for text in [
            r#"{"kind": {"numbered": 300}}"#,
            r#"{"kind": {"numbered": 7, "plain": 1}}"#,
            r#"{"kind": {}}"#,
            r#"{"kind": 5}"#,
            r#"{"kind": "other"}"#,
            r#"{"inner": {}}"#,
            r#"{"kind": "plain", "inner": []}"#,
            "[]",
            "null",
        ] {
            assert!(serde_json::from_str::<Whole>(text).is_err(), "{text}");
            assert!(value(text).to::<Whole>().is_err(), "{text}");
        }
    }

    #[test]
    fn undefined_is_left_out_and_numbers_that_are_not_finite_are_null() {
        let value = Value::object([("a", Value::Undefined), ("b", Value::from(f64::NAN)), ("c", Value::from(1_i64))]);
        let read: BTreeMap<String, Option<i64>> = value.to().unwrap();
        assert_eq!(read, BTreeMap::from([("b".to_owned(), None), ("c".to_owned(), Some(1))]));
    }

    #[test]
    fn a_list_that_is_longer_than_its_type_is_refused() {
        assert!(value("[1, 2, 3]").to::<(u8, u8)>().is_err());
        assert_eq!(value("[1, 2]").to::<(u8, u8)>().unwrap(), (1, 2));
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Into::into),
            ".{0,12}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..5)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_read_as_its_json(json in any_json()) {
            let value = Value::from(json.clone());
            prop_assert_eq!(value.to::<serde_json::Value>().unwrap(), json);
            prop_assert_eq!(value.to::<Value>().unwrap(), value);
        }
    }
}
