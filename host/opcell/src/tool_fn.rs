//! Tools from closures.

use async_trait::async_trait;
use opcell_engine::{
    ports::{Effects, Failure},
    tool::{Tool, ToolInput},
};
use opcell_types::{ToolDescription, Value};
use serde::{Serialize, de::DeserializeOwned};
use std::marker::PhantomData;

/// A tool that a closure performs: [`tool_fn`], [`tool_fn_with_schema`].
pub struct ToolFn<F, A> {
    description: ToolDescription,
    effects: Effects,
    perform: F,
    arguments: PhantomData<fn(A)>,
}

impl<F, A> std::fmt::Debug for ToolFn<F, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolFn").field("description", &self.description).field("effects", &self.effects).finish()
    }
}

impl<F, A> ToolFn<F, A> {
    /// Sets the effect of repeating a call; a tool must not be repeated unless this says otherwise.
    #[must_use]
    pub fn effects(self, effects: Effects) -> Self {
        Self { effects, ..self }
    }
}

/// A tool from a closure whose arguments have a type: their JSON Schema is that of the type, and what the closure
/// returns is written with serde.
///
/// The closure gets the arguments and a [`ToolInput`], which says who calls, on whose behalf, and when the caller no
/// longer waits. It does not block; a panic is the failure `panicked` of the call.
///
/// ```
/// use opcell::{prelude::*, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct PriceOf {
///     /// The article's number.
///     article: u32,
/// }
///
/// let price = tool_fn("shop.price", "Returns the price of an article in cents.", |of: PriceOf, input: ToolInput| async move {
///     match of.article {
///         7 => Ok(1_250),
///         _ => Err(Failure::host("no-such-article", format!("there is no article {}", of.article))),
///     }
/// });
/// let builder = Host::builder().tool(price);
/// ```
#[cfg(feature = "schemars")]
pub fn tool_fn<A, R, F, Fut>(name: impl Into<String>, description: impl Into<String>, perform: F) -> ToolFn<F, A>
where
    A: DeserializeOwned + schemars::JsonSchema + Send + 'static,
    R: Serialize + 'static,
    F: Fn(A, ToolInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    let schema = schemars::generate::SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<A>();
    tool_fn_with_schema(name, description, Value::from(serde_json::Value::from(schema)), perform)
}

/// A tool from a closure, with the JSON Schema of its arguments: for arguments whose type says less than the schema,
/// such as [`Value`].
///
/// ```
/// use opcell::{prelude::*, tool_fn_with_schema};
///
/// let nothing = opcell::json!({"type": "object", "additionalProperties": false});
/// let release = tool_fn_with_schema("release.current", "Returns the release that is served.", nothing, async |_: Value, _| {
///     Ok("2026.11")
/// });
/// let builder = Host::builder().tool(release.effects(Effects::Pure));
/// ```
pub fn tool_fn_with_schema<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: impl Into<Value>,
    perform: F,
) -> ToolFn<F, A>
where
    A: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
    F: Fn(A, ToolInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    let description = ToolDescription::new(name, description, schema);
    ToolFn { description, effects: Effects::Once, perform, arguments: PhantomData }
}

#[async_trait]
impl<A, R, F, Fut> Tool for ToolFn<F, A>
where
    A: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
    F: Fn(A, ToolInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Failure>> + Send + 'static,
{
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let arguments = serde_json::from_value(serde_json::Value::from(&input.arguments)).map_err(|error| {
            let message = format!("the arguments of `{}` are not what it takes: {error}", self.description.name);
            Failure::host("invalid-arguments", message)
        })?;
        let result = (self.perform)(arguments, input.clone()).await?;
        Value::of(&result).map_err(|error| {
            let message = format!("the result of `{}` cannot be written as JSON: {error}", self.description.name);
            Failure::host("malformed-result", message)
        })
    }
}
