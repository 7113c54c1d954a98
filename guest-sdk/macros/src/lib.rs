//! The macros of `opcell-sdk`. Use them through that crate, which documents the whole.
//!
//! Data enters as a function and leaves as the same function, beside a type of its name that implements
//! `opcell_sdk::Operation` or `opcell_sdk::Judge`; [`plugin!`] gathers such types into tables and exports them.

mod attribute;
mod function;
mod manifest;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Makes a function an operation: `#[operation("namespace/name", effects = pure)]`.
///
/// - `effects` is `pure`, `idempotent` or `once`, and says what happens when the same call is made twice.
/// - `summary = "…"` is one sentence; without it, the first paragraph of the doc comment.
/// - A parameter called `arguments` takes them as a whole, in a type that derives `Deserialize` and `JsonSchema`.
///   Otherwise every parameter is a key: `task_path` is the key `task-path`; one of type `Option` may be left out, a
///   key that is not a parameter is an error, and doc comments on parameters reach the schema.
/// - A parameter of type `&Context` beside them receives where in a run the call happens.
/// - The result is any type that implements `Serialize` and `JsonSchema`, or a `Success` of one, or a `Result` of
///   either whose error converts into `Failure`. The macro sees `Result` by its name: an alias of another name is taken
///   for data.
#[proc_macro_attribute]
pub fn operation(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = parse_macro_input!(attribute as attribute::OperationAttribute);
    let item = parse_macro_input!(item as syn::ItemFn);
    function::operation(&attribute, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function a judge: `#[judge("namespace/name", outcomes = ["DONE", keyword("again")])]`.
///
/// - `outcomes` lists every outcome that it can produce; any other verdict is a failure. Leave it out when they cannot
///   be listed.
/// - `summary` and parameters are as for an operation.
/// - The result is a `Verdict` or an `Outcome`, or a `Result` of either whose error converts into `Failure`.
#[proc_macro_attribute]
pub fn judge(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = parse_macro_input!(attribute as attribute::JudgeAttribute);
    let item = parse_macro_input!(item as syn::ItemFn);
    function::judge(&attribute, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the crate a plugin. Once per crate, at its root.
///
/// ```text
/// plugin! {
///     capabilities: {
///         tool "http.fetch": "asks the issue tracker",
///         skill "house-style": "words the report",
///         files "workspace" read: "reads the sources",
///         files "out" read-write: "writes the report",
///     },
///     limits: { wall-time-ms: 5000 },
///     operations: [find_issue, report::render],
///     judges: [health_gate],
/// }
/// ```
///
/// Every part may be left out. `capabilities` is what the plugin requests, with the reason that an operator reads
/// before granting it. Name, version, capabilities and limits become the custom section `opcell:manifest`, readable
/// without running.
#[proc_macro]
pub fn plugin(input: TokenStream) -> TokenStream {
    let plugin = parse_macro_input!(input as manifest::Plugin);
    manifest::expand(&plugin).unwrap_or_else(syn::Error::into_compile_error).into()
}
