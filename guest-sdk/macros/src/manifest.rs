//! `plugin! { … }`: the exports and the manifest.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use serde_json::{Map, Value, json};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitByteStr, LitInt, LitStr, Path, Token, braced, bracketed};

#[derive(Default)]
pub struct Plugin {
    capabilities: Capabilities,
    limits: Map<String, Value>,
    operations: Vec<Path>,
    judges: Vec<Path>,
}

#[derive(Default)]
struct Capabilities {
    tools: Vec<Value>,
    skills: Vec<Value>,
    files: Vec<Value>,
    stores: Vec<Value>,
}

impl Parse for Plugin {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut plugin = Self::default();
        while !input.is_empty() {
            let part: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            match part.to_string().as_str() {
                "capabilities" => plugin.capabilities = input.parse()?,
                "limits" => plugin.limits = limits(input)?,
                "operations" => plugin.operations = paths(input)?,
                "judges" => plugin.judges = paths(input)?,
                other => {
                    let message =
                        format!("unknown part `{other}`; a plugin has capabilities, limits, operations and judges");
                    return Err(syn::Error::new(part.span(), message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if plugin.operations.is_empty() && plugin.judges.is_empty() {
            return Err(syn::Error::new(Span::call_site(), "a plugin offers at least one operation or judge"));
        }
        Ok(plugin)
    }
}

/// The syntax of a capability.
const CAPABILITIES: &str = "a capability is tool \"name\": \"why\", skill \"name\": \"why\", store \"name\": \"why\", \
                            files \"name\" read: \"why\" or files \"name\" read-write: \"why\"";

impl Parse for Capabilities {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let content;
        braced!(content in input);
        let mut capabilities = Self::default();
        while !content.is_empty() {
            let kind: Ident = content.parse()?;
            let name: LitStr = content.parse()?;
            let access = if content.peek(Token![:]) { None } else { Some(dashed(&content)?) };
            content.parse::<Token![:]>()?;
            let reason: LitStr = content.parse().map_err(|error| syn::Error::new(error.span(), CAPABILITIES))?;
            let (list, request) = match (kind.to_string().as_str(), access.as_ref().map(|(access, _)| access.as_str()))
            {
                ("tool", None) => (&mut capabilities.tools, json!({ "name": name.value(), "reason": reason.value() })),
                ("skill", None) => {
                    (&mut capabilities.skills, json!({ "name": name.value(), "reason": reason.value() }))
                }
                ("store", None) => {
                    (&mut capabilities.stores, json!({ "name": name.value(), "reason": reason.value() }))
                }
                ("files", Some(access @ ("read" | "read-write"))) => {
                    let request = json!({ "name": name.value(), "access": access, "reason": reason.value() });
                    (&mut capabilities.files, request)
                }
                _ => {
                    return Err(syn::Error::new(access.map_or(kind.span(), |(_, span)| span), CAPABILITIES));
                }
            };
            if reason.value().trim().is_empty() {
                return Err(syn::Error::new(reason.span(), "say why: an operator decides by it"));
            }
            if list.iter().any(|other| other.get("name") == request.get("name")) {
                return Err(syn::Error::new(name.span(), "requested twice"));
            }
            list.push(request);
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(capabilities)
    }
}

/// `{ wall-time-ms: 5000, … }`
fn limits(input: ParseStream<'_>) -> syn::Result<Map<String, Value>> {
    let content;
    braced!(content in input);
    let mut limits = Map::new();
    while !content.is_empty() {
        let (name, span) = dashed(&content)?;
        content.parse::<Token![:]>()?;
        let value = content.parse::<LitInt>()?.base10_parse::<u64>()?;
        if limits.insert(name, value.into()).is_some() {
            return Err(syn::Error::new(span, "given twice"));
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(limits)
}

/// Words joined by dashes, as names are in manifests.
fn dashed(input: ParseStream<'_>) -> syn::Result<(String, Span)> {
    let first: Ident = input.parse()?;
    let mut name = first.to_string();
    while input.peek(Token![-]) {
        input.parse::<Token![-]>()?;
        name.push('-');
        name.push_str(&input.parse::<Ident>()?.to_string());
    }
    Ok((name, first.span()))
}

fn paths(input: ParseStream<'_>) -> syn::Result<Vec<Path>> {
    let content;
    bracketed!(content in input);
    Ok(Punctuated::<Path, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

pub fn expand(plugin: &Plugin) -> syn::Result<TokenStream> {
    let manifest = LitByteStr::new(manifest(plugin)?.to_string().as_bytes(), Span::call_site());
    let operations = (!plugin.operations.is_empty()).then(|| operations(&plugin.operations));
    let judges = (!plugin.judges.is_empty()).then(|| judges(&plugin.judges));
    Ok(quote! {
        const _: () = {
            #[allow(dead_code)]
            struct Plugin;

            #operations
            #judges

            #[cfg(target_arch = "wasm32")]
            #[unsafe(link_section = "opcell:manifest")]
            #[used]
            static MANIFEST: [u8; #manifest.len()] = *#manifest;
        };
    })
}

fn operations(operations: &[Path]) -> TokenStream {
    quote! {
        static OPERATIONS: &[::opcell_sdk::plugin::OperationEntry] =
            &[#(::opcell_sdk::plugin::OperationEntry::of::<#operations>()),*];
        const _: () = ::core::assert!(
            ::opcell_sdk::plugin::unique(&[#(<#operations as ::opcell_sdk::Operation>::ID),*]),
            "two operations have the same id"
        );

        impl ::opcell_sdk::bindings::operations::exports::opcell::plugin0_1_0::operations::Guest for Plugin {
            fn describe() -> ::std::vec::Vec<::opcell_sdk::plugin::OperationDescription> {
                ::opcell_sdk::plugin::describe_operations(OPERATIONS)
            }

            fn invoke(
                id: ::std::string::String,
                arguments: ::std::string::String,
                context: ::opcell_sdk::Context,
            ) -> ::core::result::Result<::opcell_sdk::plugin::Reply, ::opcell_sdk::plugin::RawFailure> {
                ::opcell_sdk::plugin::invoke(OPERATIONS, &id, &arguments, &context)
            }
        }

        #[cfg(target_arch = "wasm32")]
        ::opcell_sdk::bindings::operations::export_operations!(Plugin with_types_in ::opcell_sdk::bindings::operations);
    }
}

fn judges(judges: &[Path]) -> TokenStream {
    quote! {
        static JUDGES: &[::opcell_sdk::plugin::JudgeEntry] =
            &[#(::opcell_sdk::plugin::JudgeEntry::of::<#judges>()),*];
        const _: () = ::core::assert!(
            ::opcell_sdk::plugin::unique(&[#(<#judges as ::opcell_sdk::Judge>::ID),*]),
            "two judges have the same id"
        );

        impl ::opcell_sdk::bindings::judges::exports::opcell::plugin0_1_0::judges::Guest for Plugin {
            fn describe() -> ::std::vec::Vec<::opcell_sdk::plugin::JudgeDescription> {
                ::opcell_sdk::plugin::describe_judges(JUDGES)
            }

            fn judge(
                id: ::std::string::String,
                arguments: ::std::string::String,
                context: ::opcell_sdk::Context,
            ) -> ::core::result::Result<::opcell_sdk::plugin::RawVerdict, ::opcell_sdk::plugin::RawFailure> {
                ::opcell_sdk::plugin::judge(JUDGES, &id, &arguments, &context)
            }
        }

        #[cfg(target_arch = "wasm32")]
        ::opcell_sdk::bindings::judges::export_judges!(Plugin with_types_in ::opcell_sdk::bindings::judges);
    }
}

/// The JSON of the custom section `opcell:manifest`.
fn manifest(plugin: &Plugin) -> syn::Result<Value> {
    let package = |key: &str| {
        std::env::var(key)
            .map_err(|_| syn::Error::new(Span::call_site(), format!("{key} is not set: build with cargo")))
    };
    let Capabilities { tools, skills, files, stores } = &plugin.capabilities;
    let mut capabilities = json!({ "tools": tools, "skills": skills, "files": files });
    // Hosts before 0.2.0 of the contract do not know the key.
    if let (Some(capabilities), false) = (capabilities.as_object_mut(), stores.is_empty()) {
        capabilities.insert("stores".to_owned(), json!(stores));
    }
    Ok(json!({
        "schema": 1,
        "name": package("CARGO_PKG_NAME")?,
        "version": package("CARGO_PKG_VERSION")?,
        "capabilities": capabilities,
        "limits": plugin.limits,
    }))
}
