//! JSON Schemas of WIT types.
//!
//! | WIT | JSON |
//! | --- | --- |
//! | `bool`, `string`, `char` | boolean, text, text of one character |
//! | integers up to 32 bits | number with its bounds |
//! | `s64`, `u64` | number where it is exact in every language (up to 2^53 - 1), otherwise decimal text |
//! | `f32`, `f64` | number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `list`, `tuple` | array |
//! | `list<u8>` | array or base64 text; more than 1,024 bytes are returned as text |
//! | `record` | object; a field of type `option` may be absent |
//! | `enum`, `flags` | text, array of texts |
//! | `variant` | text for a case without a value, otherwise an object with the case as its one member |
//! | `option` | the value or null; within another option `{"some": value}` or null |
//! | `result` | `{"ok": value}` or `{"error": value}`; as the result of a function, data or a failure |

use serde_json::{Map, Value, json};
use wasmtime::component::{Type, types::ComponentFunc};

/// Deeper types than people write; what walks values of a type is as deep as the type.
const MAX_DEPTH: usize = 32;

/// Parts of one function's types, each use of a named type counted: types may share parts, and schemas repeat them.
const MAX_PARTS: usize = 4_000;

/// Bytes that are returned as a list of numbers; more are base64 text, which takes a third of the space.
pub(super) const LISTED_BYTES: usize = 1_024;

/// Largest number that every JSON reader keeps exact.
pub(super) const EXACT: u64 = (1 << 53) - 1;

/// The schemas of a function's parameters, as one object, and of its result.
pub(super) fn of_function(function: &ComponentFunc) -> Result<(Value, Value), String> {
    if function.async_() {
        return Err("it is an async function of WASI 0.3; this host serves WASI 0.2".to_owned());
    }
    let mut walk = Walk { parts: 0 };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, of_type) in function.params() {
        if !matches!(of_type, Type::Option(_)) {
            required.push(json!(name));
        }
        properties.insert(name.to_owned(), walk.schema(&of_type, 0)?);
    }
    let arguments =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let data = match function.results().next() {
        None => json!({"type": "null"}),
        Some(Type::Result(result)) => {
            if let Some(error) = result.err() {
                walk.schema(&error, 0)?;
            }
            walk.optional(result.ok(), 0)?
        }
        Some(of_type) => walk.schema(&of_type, 0)?,
    };
    Ok((arguments, data))
}

struct Walk {
    parts: usize,
}

impl Walk {
    fn optional(&mut self, of_type: Option<Type>, depth: usize) -> Result<Value, String> {
        of_type.map_or(Ok(json!({"type": "null"})), |of_type| self.schema(&of_type, depth))
    }

    fn schema(&mut self, of_type: &Type, depth: usize) -> Result<Value, String> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return Err(format!("its types have more than {MAX_PARTS} parts, or are more than {MAX_DEPTH} deep"));
        }
        let depth = depth + 1;
        let integer = |least: i64, most: i64| json!({"type": "integer", "minimum": least, "maximum": most});
        Ok(match of_type {
            Type::Bool => json!({"type": "boolean"}),
            Type::S8 => integer(i64::from(i8::MIN), i64::from(i8::MAX)),
            Type::U8 => integer(0, i64::from(u8::MAX)),
            Type::S16 => integer(i64::from(i16::MIN), i64::from(i16::MAX)),
            Type::U16 => integer(0, i64::from(u16::MAX)),
            Type::S32 => integer(i64::from(i32::MIN), i64::from(i32::MAX)),
            Type::U32 => integer(0, i64::from(u32::MAX)),
            Type::S64 => json!({
                "type": ["integer", "string"], "minimum": i64::MIN, "maximum": i64::MAX,
                "description": "A signed integer of 64 bits: a number up to 2^53 - 1, otherwise decimal text.",
            }),
            Type::U64 => json!({
                "type": ["integer", "string"], "minimum": 0, "maximum": u64::MAX,
                "description": "An unsigned integer of 64 bits: a number up to 2^53 - 1, otherwise decimal text.",
            }),
            Type::Float32 => {
                // As the shortest text of it reads, so that it fits itself.
                let most = f32::MAX.to_string().parse().unwrap_or(f64::from(f32::MAX));
                let number = json!({"type": "number", "minimum": -most, "maximum": most});
                json!({"anyOf": [number, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
            }
            Type::Float64 => json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}),
            Type::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
            Type::String => json!({"type": "string"}),
            Type::List(list) if matches!(list.ty(), Type::U8) => {
                bytes(&json!({"type": "array", "items": self.schema(&list.ty(), depth)?}))
            }
            Type::FixedLengthList(list) if matches!(list.ty(), Type::U8) => bytes(&json!({
                "type": "array", "items": self.schema(&list.ty(), depth)?, "minItems": list.len(), "maxItems": list.len(),
            })),
            Type::List(list) => json!({"type": "array", "items": self.schema(&list.ty(), depth)?}),
            Type::FixedLengthList(list) => json!({
                "type": "array", "items": self.schema(&list.ty(), depth)?, "minItems": list.len(), "maxItems": list.len(),
            }),
            Type::Tuple(tuple) => {
                let items: Vec<Value> =
                    tuple.types().map(|part| self.schema(&part, depth)).collect::<Result<_, _>>()?;
                json!({"type": "array", "minItems": items.len(), "maxItems": items.len(), "prefixItems": items})
            }
            Type::Record(record) => {
                let (mut properties, mut required) = (Map::new(), Vec::new());
                for field in record.fields() {
                    if !matches!(field.ty, Type::Option(_)) {
                        required.push(json!(field.name));
                    }
                    properties.insert(field.name.to_owned(), self.schema(&field.ty, depth)?);
                }
                json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
            }
            Type::Variant(variant) => {
                let (mut names, mut cases) = (Vec::new(), Vec::new());
                for case in variant.cases() {
                    match case.ty {
                        None => names.push(case.name.to_owned()),
                        Some(of_type) => cases.push(member(case.name, self.schema(&of_type, depth)?)),
                    }
                }
                if !names.is_empty() {
                    cases.push(json!({"enum": names}));
                }
                json!({"anyOf": cases})
            }
            Type::Enum(names) => json!({"enum": names.names().collect::<Vec<_>>()}),
            Type::Flags(flags) => {
                let names: Vec<&str> = flags.names().collect();
                json!({"type": "array", "items": {"enum": names}, "maxItems": names.len()})
            }
            Type::Option(option) => {
                let some = self.schema(&option.ty(), depth)?;
                let some = if matches!(option.ty(), Type::Option(_)) { member("some", some) } else { some };
                json!({"anyOf": [some, {"type": "null"}]})
            }
            Type::Result(result) => {
                let ok = self.optional(result.ok(), depth)?;
                let error = self.optional(result.err(), depth)?;
                json!({"anyOf": [member("ok", ok), member("error", error)]})
            }
            Type::Own(_) | Type::Borrow(_) => {
                return Err(
                    "it takes or returns a resource, which JSON cannot hold; export a function of plain values"
                        .to_owned(),
                );
            }
            Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
                return Err(
                    "it takes or returns a stream or a future of WASI 0.3; this host serves WASI 0.2".to_owned()
                );
            }
            _ => return Err("it has a type that this host does not know".to_owned()),
        })
    }
}

/// Returns `true` for a type that has a `list<u8>` and no other list. Types are not deep: they have been described.
pub(super) fn is_of_bytes(of_type: &Type) -> bool {
    fn look(of_type: &Type, bytes: &mut bool) -> bool {
        let mut all = |types: Vec<Type>| types.iter().all(|of_type| look(of_type, bytes));
        match of_type {
            Type::List(list) => {
                *bytes |= matches!(list.ty(), Type::U8);
                matches!(list.ty(), Type::U8)
            }
            Type::FixedLengthList(_) | Type::Map(_) => false,
            Type::Record(record) => all(record.fields().map(|field| field.ty).collect()),
            Type::Tuple(tuple) => all(tuple.types().collect()),
            Type::Variant(variant) => all(variant.cases().filter_map(|case| case.ty).collect()),
            Type::Option(option) => all(vec![option.ty()]),
            Type::Result(result) => all(result.ok().into_iter().chain(result.err()).collect()),
            _ => true,
        }
    }
    let mut bytes = false;
    look(of_type, &mut bytes) && bytes
}

/// Bytes as a list of numbers, or as text.
fn bytes(list: &Value) -> Value {
    json!({
        "anyOf": [list, {"type": "string", "contentEncoding": "base64"}],
        "description": format!("Bytes: a list of numbers, or base64 text. More than {LISTED_BYTES} are returned as text."),
    })
}

/// An object with exactly this member.
fn member(name: &str, schema: Value) -> Value {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), schema);
    json!({"type": "object", "properties": properties, "required": [name], "additionalProperties": false})
}
