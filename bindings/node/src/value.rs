//! Values of JavaScript as JSON values, and back.

use napi::{
    Env, JsValue as _, Property, PropertyAttributes, Status, Unknown, ValueType,
    bindgen_prelude::{
        BigInt, FromNapiValue, Function, HandleScope, JsObjectValue as _, KeyCollectionMode, KeyConversion, KeyFilter,
        Null, Object, ToNapiValue, TypeName, ValidateNapiValue,
    },
    sys,
};
use opcell::Value;
use opcell::layers::types::{
    text::one_line,
    value::{MAX_BYTES, MAX_DEPTH, NumberKind},
};

/// Bytes that the smallest value counts: parts that are shared count wherever they appear.
const NODE_BYTES: u64 = 16;

/// The largest integer that is a number of JavaScript and not a `bigint`.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The longest name of a class in a message, in bytes.
const NAME_BYTES: usize = 100;

/// A value that a caller gives, or the reason why it is not JSON.
pub struct Given(Result<Value, String>);

impl Given {
    /// Returns the value.
    ///
    /// # Errors
    /// With the problem, which is a `TypeError` of JavaScript's.
    pub(crate) fn named(self, what: &str) -> napi::Result<Value> {
        self.0.map_err(|problem| napi::Error::new(Status::InvalidArg, format!("{what}: {problem}")))
    }

    /// Returns the value, or the problem.
    pub(crate) fn read(self) -> Result<Value, String> {
        self.0
    }
}

impl TypeName for Given {
    fn type_name() -> &'static str {
        "unknown"
    }

    fn value_type() -> ValueType {
        ValueType::Unknown
    }
}

impl ValidateNapiValue for Given {}

impl FromNapiValue for Given {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        // SAFETY: the caller says that both are valid.
        let value = unsafe { Unknown::from_raw_unchecked(env, value) };
        let env = Env::from_raw(env);
        let mut reader = Reader { env: &env, left: MAX_BYTES };
        Ok(Self(reader.read(value, 0).map_err(|problem| problem.describe(&env))))
    }
}

/// A reason why a value is not JSON.
enum Problem {
    Stated(String),
    /// JavaScript that ran while the value was read threw, or its engine refused something.
    Engine,
}

impl From<napi::Error> for Problem {
    fn from(_: napi::Error) -> Self {
        Self::Engine
    }
}

impl Problem {
    fn describe(self, env: &Env) -> String {
        let mut thrown = std::ptr::null_mut();
        // SAFETY: the environment is that of the call. What was thrown is not looked at: that would run more of it.
        let _ = unsafe { sys::napi_get_and_clear_last_exception(env.raw(), &raw mut thrown) };
        match self {
            Self::Stated(problem) => problem,
            Self::Engine => "a property of it cannot be read: a getter, a proxy or `toJSON` threw".to_owned(),
        }
    }
}

fn stated<T>(problem: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Stated(problem.into()))
}

/// Runs something whose handles are not used afterwards, so that a large value does not keep all of its own.
fn scoped<T, E: From<napi::Error>>(env: &Env, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let scope = HandleScope::create(env)?;
    let worked = work();
    let none = Null.into_unknown(env)?;
    // SAFETY: `work` returns no handle.
    unsafe { scope.close(none, |_| Ok(())) }?;
    worked
}

struct Reader<'a> {
    env: &'a Env,
    /// Bytes that may still be read.
    left: u64,
}

impl Reader<'_> {
    fn take(&mut self, bytes: u64) -> Result<(), Problem> {
        match self.left.checked_sub(bytes.saturating_add(NODE_BYTES)) {
            Some(left) => self.left = left,
            None => return stated(format!("it is larger than {} MiB", MAX_BYTES >> 20)),
        }
        Ok(())
    }

    fn read(&mut self, value: Unknown<'_>, depth: u32) -> Result<Value, Problem> {
        if depth > MAX_DEPTH {
            return stated(format!("it is nested more than {MAX_DEPTH} levels deep, or contains itself"));
        }
        let kind = value.get_type()?;
        if kind == ValueType::String {
            return Ok(Value::from(self.text(value)?));
        }
        self.take(0)?;
        // SAFETY, of every cast: the type is the one that was found.
        match kind {
            ValueType::Null | ValueType::Undefined => Ok(Value::Null),
            ValueType::Boolean => Ok(Value::Bool(unsafe { value.cast() }?)),
            ValueType::Number => number(unsafe { value.cast() }?),
            ValueType::BigInt => integer(&unsafe { value.cast() }?),
            ValueType::Object => {
                let object = unsafe { value.cast() }?;
                if value.is_array()? { self.items(&object, depth) } else { self.object(&object, depth) }
            }
            ValueType::Function => stated("a function is not JSON"),
            ValueType::Symbol => stated("a symbol is not JSON"),
            _ => stated("a value of the engine is not JSON"),
        }
    }

    /// The text of a string.
    fn text(&mut self, value: Unknown<'_>) -> Result<String, Problem> {
        // SAFETY: the value is a string.
        let text = unsafe { value.cast::<napi::JsString<'_>>() }?;
        self.take(text.utf16_len()? as u64)?;
        let read = text.into_utf8()?.into_owned()?;
        if read.contains('\u{fffd}') {
            // The engine writes that character for half of a pair: the original tells which it is.
            let text = unsafe { value.cast::<napi::JsString<'_>>() }?;
            let length = text.utf16_len()?;
            let units = text.into_utf16()?;
            if String::from_utf16(units.as_slice().get(..length).unwrap_or_default()).is_err() {
                return stated("a string has a surrogate, which JSON does not have");
            }
        }
        Ok(read)
    }

    fn items(&mut self, array: &Object<'_>, depth: u32) -> Result<Value, Problem> {
        let length = array.get_array_length()?;
        if u64::from(length).saturating_mul(NODE_BYTES) > self.left {
            return stated(format!("it is larger than {} MiB", MAX_BYTES >> 20));
        }
        let mut items = Vec::with_capacity(length.min(1_024) as usize);
        for index in 0..length {
            let env = self.env;
            let read = || self.read(array.get_element(index)?, depth.saturating_add(1));
            items.push(scoped(env, read)?);
        }
        Ok(Value::from(items))
    }

    fn object(&mut self, object: &Object<'_>, depth: u32) -> Result<Value, Problem> {
        if !is_plain(object)? {
            let method: Unknown<'_> = object.get_named_property_unchecked("toJSON")?;
            if method.get_type()? != ValueType::Function {
                return stated(format!(
                    "a `{}` is not JSON; give null, boolean, number, bigint, string, array or plain object",
                    class_name(self.env, object)
                ));
            }
            // SAFETY: it is a function.
            let method = unsafe { method.cast::<Function<'_, (), Unknown<'_>>>() }?;
            return self.read(method.apply(object, ())?, depth.saturating_add(1));
        }
        let names = object.get_all_property_names(
            KeyCollectionMode::OwnOnly,
            KeyFilter::Enumerable,
            KeyConversion::NumbersToStrings,
        )?;
        let length = names.get_array_length()?;
        let mut entries = Vec::with_capacity(length.min(1_024) as usize);
        for index in 0..length {
            let env = self.env;
            let read = || {
                let name: Unknown<'_> = names.get_element(index)?;
                if name.get_type()? != ValueType::String {
                    return Ok(None);
                }
                let entry: Unknown<'_> = object.get_property(name)?;
                match entry.get_type()? {
                    ValueType::Undefined => Ok::<_, Problem>(None),
                    _ => Ok(Some((self.text(name)?, self.read(entry, depth.saturating_add(1))?))),
                }
            };
            entries.extend(scoped(env, read)?);
        }
        Ok(Value::object(entries))
    }
}

fn number(number: f64) -> Result<Value, Problem> {
    if !number.is_finite() {
        return stated(format!("JSON has no {}", if number.is_nan() { "NaN" } else { "Infinity" }));
    }
    // An integer that JavaScript counts with exactly is one, however it was written.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it has 53 bits")]
    let exact = (number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64).then_some(number as i64);
    Ok(exact.map_or_else(|| Value::from(number), Value::from))
}

fn integer(number: &BigInt) -> Result<Value, Problem> {
    let (signed, is_exact) = number.get_i64();
    if is_exact {
        return Ok(Value::from(signed));
    }
    let (is_negative, unsigned, is_exact) = number.get_u64();
    if is_exact && !is_negative { Ok(Value::from(unsigned)) } else { stated("a bigint has more than 64 bits") }
}

/// Returns `true` for an object without a class: its prototype has none of its own. That holds in every realm.
fn is_plain(object: &Object<'_>) -> napi::Result<bool> {
    let prototype = object.get_prototype()?;
    if prototype.get_type()? != ValueType::Object {
        return Ok(true);
    }
    // SAFETY: it is an object.
    let next = unsafe { prototype.cast::<Object<'_>>() }?.get_prototype()?;
    Ok(next.get_type()? == ValueType::Null)
}

/// The name of an object's class, for messages.
fn class_name(env: &Env, object: &Object<'_>) -> String {
    let name = || -> napi::Result<String> {
        let class: Unknown<'_> = object.get_named_property_unchecked("constructor")?;
        // SAFETY: the types are checked.
        let class = match class.get_type()? {
            ValueType::Function => unsafe { class.cast::<Object<'_>>() }?,
            _ => return Ok(String::new()),
        };
        let name: Unknown<'_> = class.get_named_property_unchecked("name")?;
        if name.get_type()? == ValueType::String { unsafe { name.cast() } } else { Ok(String::new()) }
    };
    match name() {
        Ok(name) if !name.is_empty() => one_line(&name, NAME_BYTES),
        Ok(_) => "object with a prototype".to_owned(),
        Err(error) => {
            Problem::from(error).describe(env);
            "object with a prototype".to_owned()
        }
    }
}

/// A value for JavaScript: an integer beyond 53 bits is a `bigint`.
pub struct Json(pub(crate) Value);

impl ToNapiValue for Json {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        Ok(written(&Env::from_raw(env), &value.0)?.raw())
    }
}

fn written<'env>(env: &'env Env, value: &Value) -> napi::Result<Unknown<'env>> {
    match value {
        Value::Undefined | Value::Null => Null.into_unknown(env),
        Value::Bool(flag) => flag.into_unknown(env),
        Value::Number(number) => match number.kind() {
            NumberKind::Integer(number) if number.unsigned_abs() <= MAX_SAFE_INTEGER => {
                env.create_int64(number)?.into_unknown(env)
            }
            NumberKind::Integer(number) => BigInt::from(number).into_unknown(env),
            NumberKind::Unsigned(number) => BigInt::from(number).into_unknown(env),
            NumberKind::Float(number) => number.into_unknown(env),
        },
        Value::String(text) => text.as_str().into_unknown(env),
        Value::Array(items) => {
            let length = u32::try_from(items.len()).unwrap_or(u32::MAX);
            let mut array = env.create_array(length)?;
            for (index, item) in (0..).zip(items.iter()) {
                scoped(env, || array.set(index, written(env, item)?))?;
            }
            array.into_unknown(env)
        }
        Value::Object(entries) => {
            let mut object = Object::new(env)?;
            for (name, entry) in entries.iter().filter(|(_, entry)| !matches!(entry, Value::Undefined)) {
                scoped(env, || property(env, &mut object, name.as_str(), written(env, entry)?))?;
            }
            object.into_unknown(env)
        }
    }
}

/// Sets a property. The name of the prototype is one like any other: it is defined, for assigning it would change what
/// the object inherits.
fn property(env: &Env, object: &mut Object<'_>, name: &str, value: Unknown<'_>) -> napi::Result<()> {
    if name != "__proto__" {
        return object.set_property(env.create_string(name)?, value);
    }
    let attributes = PropertyAttributes::Writable | PropertyAttributes::Enumerable | PropertyAttributes::Configurable;
    let property = Property::new().with_utf8_name(name)?.with_value(&value).with_property_attributes(attributes);
    object.define_properties(&[property])
}
