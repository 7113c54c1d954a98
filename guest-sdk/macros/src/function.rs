//! From a function to the type that represents it.

use crate::attribute::{JudgeAttribute, OperationAttribute, Outcome};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, FnArg, GenericArgument, ItemFn, Lit, LitStr, Meta, Pat, PathArguments, ReturnType, Type};

/// The name of a parameter that takes the arguments as a whole.
const WHOLE: &str = "arguments";

pub fn operation(attribute: &OperationAttribute, mut item: ItemFn) -> syn::Result<TokenStream> {
    let function = Function::of(&mut item)?;
    let Function { name, visibility, arguments_type, declarations, call, reply_type, .. } = &function;
    let summary = summary(attribute.summary.as_ref(), &item)?;
    let (id, effects) = (&attribute.id, &attribute.effects);
    Ok(quote! {
        #item

        #[doc = #summary]
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        const _: () = {
            #declarations

            impl ::opcell_sdk::Operation for #name {
                const ID: &'static str = #id;
                const SUMMARY: &'static str = #summary;
                const EFFECTS: ::opcell_sdk::Effects = ::opcell_sdk::Effects::#effects;

                fn arguments_schema() -> ::opcell_sdk::serde_json::Value {
                    ::opcell_sdk::plugin::arguments_schema::<#arguments_type>()
                }

                fn data_schema() -> ::opcell_sdk::serde_json::Value {
                    ::opcell_sdk::plugin::data_schema::<#reply_type>()
                }

                fn invoke(
                    arguments: &str,
                    context: &::opcell_sdk::Context,
                ) -> ::core::result::Result<::opcell_sdk::plugin::Reply, ::opcell_sdk::Failure> {
                    let arguments: #arguments_type = ::opcell_sdk::plugin::read_arguments(arguments)?;
                    let _ = (&arguments, context);
                    ::opcell_sdk::IntoReply::into_reply(#call)
                }
            }
        };
    })
}

pub fn judge(attribute: &JudgeAttribute, mut item: ItemFn) -> syn::Result<TokenStream> {
    let function = Function::of(&mut item)?;
    let Function { name, visibility, arguments_type, declarations, call, .. } = &function;
    let summary = summary(attribute.summary.as_ref(), &item)?;
    let id = &attribute.id;
    let outcomes = attribute.outcomes.iter().map(Outcome::expression);
    Ok(quote! {
        #item

        #[doc = #summary]
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        const _: () = {
            #declarations

            impl ::opcell_sdk::Judge for #name {
                const ID: &'static str = #id;
                const SUMMARY: &'static str = #summary;

                fn arguments_schema() -> ::opcell_sdk::serde_json::Value {
                    ::opcell_sdk::plugin::arguments_schema::<#arguments_type>()
                }

                fn outcomes() -> ::std::vec::Vec<::opcell_sdk::Outcome> {
                    ::std::vec![#(#outcomes),*]
                }

                fn judge(
                    arguments: &str,
                    context: &::opcell_sdk::Context,
                ) -> ::core::result::Result<::opcell_sdk::Verdict, ::opcell_sdk::Failure> {
                    let arguments: #arguments_type = ::opcell_sdk::plugin::read_arguments(arguments)?;
                    let _ = (&arguments, context);
                    ::core::result::Result::Ok(::core::convert::Into::into(#call))
                }
            }
        };
    })
}

/// The parts of a function that both attributes need.
struct Function {
    name: syn::Ident,
    visibility: syn::Visibility,
    arguments_type: TokenStream,
    /// The arguments type itself, where the parameters stand for its fields.
    declarations: TokenStream,
    /// The call, with a `?` where the function returns a `Result`.
    call: TokenStream,
    /// The type that it returns when it succeeds.
    reply_type: TokenStream,
}

struct Parameter {
    name: syn::Ident,
    attributes: Vec<Attribute>,
    of_type: Type,
}

impl Function {
    /// Reads the function, and takes the attributes off its parameters: they belong to the schema.
    fn of(item: &mut ItemFn) -> syn::Result<Self> {
        let signature = &mut item.sig;
        if let Some(asyncness) = signature.asyncness {
            return Err(syn::Error::new(
                asyncness.span(),
                "operations and judges are plain functions: host calls wait by themselves",
            ));
        }
        if !signature.generics.params.is_empty() {
            return Err(syn::Error::new(
                signature.generics.span(),
                "operations and judges have no type parameters: their schema is fixed",
            ));
        }
        let mut parameters = Vec::new();
        let mut passed = Vec::new();
        for input in &mut signature.inputs {
            let FnArg::Typed(input) = input else {
                return Err(syn::Error::new(input.span(), "operations and judges are free functions"));
            };
            if is_context(&input.ty) {
                passed.push(None);
                continue;
            }
            let Pat::Ident(name) = input.pat.as_ref() else {
                return Err(syn::Error::new(
                    input.pat.span(),
                    "name the parameter: its name is a key of the arguments",
                ));
            };
            let attributes = std::mem::take(&mut input.attrs);
            let parameter = Parameter { name: name.ident.clone(), attributes, of_type: (*input.ty).clone() };
            passed.push(Some(parameter.name.clone()));
            parameters.push(parameter);
        }

        let name = signature.ident.clone();
        let whole = parameters.iter().find(|parameter| parameter.name == WHOLE);
        if let (Some(whole), true) = (whole, parameters.len() > 1) {
            let message = "`arguments` is the arguments as a whole, and leaves none for other parameters";
            return Err(syn::Error::new(whole.name.span(), message));
        }
        let arguments_type = whole.map_or_else(|| quote!(Arguments), |whole| whole.of_type.to_token_stream());
        let whole = whole.is_some();
        let declarations = if whole { TokenStream::new() } else { declare(&parameters) };
        let passed = passed.iter().map(|parameter| match parameter {
            None => quote!(context),
            Some(_) if whole => quote!(arguments),
            Some(name) => quote!(arguments.#name),
        });
        let (reply_type, question_mark) = reply(&signature.output);
        let call = quote!(#name(#(#passed),*) #question_mark);
        Ok(Self { name, visibility: item.vis.clone(), arguments_type, declarations, call, reply_type })
    }
}

fn declare(parameters: &[Parameter]) -> TokenStream {
    let fields =
        parameters.iter().map(|Parameter { name, attributes, of_type }| quote!(#(#attributes)* #name: #of_type));
    quote! {
        #[derive(::opcell_sdk::serde::Deserialize, ::opcell_sdk::schemars::JsonSchema)]
        #[serde(crate = "::opcell_sdk::serde", rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(crate = "::opcell_sdk::schemars")]
        struct Arguments { #(#fields),* }
    }
}

fn is_context(of_type: &Type) -> bool {
    let Type::Reference(reference) = of_type else { return false };
    matches!(reference.elem.as_ref(), Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context"))
}

/// The type of a success, and `?` if the function may fail.
fn reply(output: &ReturnType) -> (TokenStream, Option<TokenStream>) {
    let ReturnType::Type(_, returned) = output else { return (quote!(()), None) };
    if let Type::Path(path) = returned.as_ref()
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
        && let PathArguments::AngleBracketed(generics) = &last.arguments
        && let Some(GenericArgument::Type(success)) = generics.args.first()
    {
        return (quote!(#success), Some(quote!(?)));
    }
    (quote!(#returned), None)
}

/// The attribute's, or else the first paragraph of the doc comment.
fn summary(given: Option<&LitStr>, item: &ItemFn) -> syn::Result<String> {
    if let Some(summary) = given {
        return Ok(summary.value());
    }
    let lines = item.attrs.iter().filter_map(doc_line);
    let paragraph: Vec<String> = lines.map(|line| line.trim().to_owned()).take_while(|line| !line.is_empty()).collect();
    if paragraph.is_empty() {
        let message = "say in one sentence what it does: a doc comment, or summary = \"…\"";
        return Err(syn::Error::new(item.sig.ident.span(), message));
    }
    Ok(paragraph.join(" "))
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(value) = &attribute.meta else { return None };
    let Expr::Lit(literal) = &value.value else { return None };
    let Lit::Str(text) = &literal.lit else { return None };
    value.path.is_ident("doc").then(|| text.value())
}
