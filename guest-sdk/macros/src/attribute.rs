//! The arguments between the brackets of `#[operation(…)]` and `#[judge(…)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitStr, Token, bracketed, parenthesized};

pub struct OperationAttribute {
    pub id: LitStr,
    pub summary: Option<LitStr>,
    /// The variant of `Effects`.
    pub effects: Ident,
}

pub struct JudgeAttribute {
    pub id: LitStr,
    pub summary: Option<LitStr>,
    pub outcomes: Vec<Outcome>,
}

/// `"DONE"` or `keyword("done")`.
pub enum Outcome {
    Text(LitStr),
    Keyword(LitStr),
}

impl Outcome {
    pub fn expression(&self) -> TokenStream {
        match self {
            Self::Text(text) => quote!(::opcell_sdk::Outcome::Text(::std::string::String::from(#text))),
            Self::Keyword(name) => quote!(::opcell_sdk::Outcome::Keyword(::std::string::String::from(#name))),
        }
    }
}

impl Parse for Outcome {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Self::Text(input.parse()?));
        }
        let kind: Ident = input.parse()?;
        if kind != "keyword" {
            return Err(syn::Error::new(kind.span(), "expected an outcome: \"text\" or keyword(\"name\")"));
        }
        let content;
        parenthesized!(content in input);
        Ok(Self::Keyword(content.parse()?))
    }
}

impl Parse for OperationAttribute {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let id = identifier(input)?;
        let (mut summary, mut effects) = (None, None);
        while let Some(key) = next_key(input)? {
            match key.to_string().as_str() {
                "summary" => summary = Some(input.parse()?),
                "effects" => effects = Some(effects_variant(&input.parse()?)?),
                other => {
                    let message = format!("unknown key `{other}`; an operation has `effects` and `summary`");
                    return Err(syn::Error::new(key.span(), message));
                }
            }
        }
        let effects = effects.ok_or_else(|| {
            let message = "say what happens when the same call is made twice: effects = pure, idempotent or once";
            syn::Error::new(id.span(), message)
        })?;
        Ok(Self { id, summary, effects })
    }
}

impl Parse for JudgeAttribute {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let id = identifier(input)?;
        let (mut summary, mut outcomes) = (None, Vec::new());
        while let Some(key) = next_key(input)? {
            match key.to_string().as_str() {
                "summary" => summary = Some(input.parse()?),
                "outcomes" => {
                    let content;
                    bracketed!(content in input);
                    outcomes = Punctuated::<Outcome, Token![,]>::parse_terminated(&content)?.into_iter().collect();
                }
                other => {
                    let message = format!("unknown key `{other}`; a judge has `outcomes` and `summary`");
                    return Err(syn::Error::new(key.span(), message));
                }
            }
        }
        Ok(Self { id, summary, outcomes })
    }
}

fn next_key(input: ParseStream<'_>) -> syn::Result<Option<Ident>> {
    if input.is_empty() {
        return Ok(None);
    }
    input.parse::<Token![,]>()?;
    if input.is_empty() {
        return Ok(None);
    }
    let key = input.parse()?;
    input.parse::<Token![=]>()?;
    Ok(Some(key))
}

fn effects_variant(effects: &Ident) -> syn::Result<Ident> {
    let variant = match effects.to_string().as_str() {
        "pure" => "Pure",
        "idempotent" => "Idempotent",
        "once" => "Once",
        other => {
            let message = format!("unknown effects `{other}`: pure, idempotent or once");
            return Err(syn::Error::new(effects.span(), message));
        }
    };
    Ok(Ident::new(variant, effects.span()))
}

fn identifier(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let id: LitStr = input.parse()?;
    let part = |part: &str| {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().next().is_some_and(word) && part.bytes().all(|byte| word(byte) || byte == b'-')
    };
    match id.value().split_once('/') {
        Some((namespace, name)) if part(namespace) && part(name) => Ok(id),
        _ => {
            let message = "an id is `namespace/name`, each of a-z, 0-9 and -, and not starting with -";
            Err(syn::Error::new(id.span(), message))
        }
    }
}
