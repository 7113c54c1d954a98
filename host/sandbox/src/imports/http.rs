//! `wasi:http/outgoing-handler` for components that were not written for `opcell:plugin`: each request is a call of the
//! host's tool `http.fetch`, under the same grant and the same rules. The engine's own HTTP client is not part of this
//! program.
//!
//! A guest gets the whole interface, because toolchains import all of it; what serves requests, rather than makes them,
//! ends the cell.

use super::View;
use crate::{
    budget::{Exceeded, Interface},
    host::{HostServices, within},
    recording::taped,
    state::CellState,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use held::{Sent, Share, weight};
use opcell_types::{CallContext, Capability, Failure, TouchLog};
use serde_json::{Map, Value, json};
use std::{pin::Pin, sync::Arc, time::Duration};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::{DynOutputStream, IoError, Pollable};
use wit::{ErrorCode, HeaderError, Method, Scheme};

mod held;
mod response;
mod serving;

pub(crate) use held::Held;

mod bindings {
    #![allow(missing_docs, clippy::indexing_slicing, reason = "generated from wit-http/")]

    wasmtime::component::bindgen!({
        path: "wit-http",
        world: "wasi:http/client",
        imports: { default: trappable },
        require_store_data_send: true,
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:http/types.fields": super::Fields,
            "wasi:http/types.outgoing-request": super::OutgoingRequest,
            "wasi:http/types.request-options": super::RequestOptions,
            "wasi:http/types.outgoing-body": super::OutgoingBody,
            "wasi:http/types.future-incoming-response": super::FutureResponse,
            "wasi:http/types.incoming-response": super::IncomingResponse,
            "wasi:http/types.incoming-body": super::IncomingBody,
            "wasi:http/types.future-trailers": super::FutureTrailers,
            "wasi:http/types.incoming-request": super::IncomingRequest,
            "wasi:http/types.outgoing-response": super::OutgoingResponse,
            "wasi:http/types.response-outparam": super::ResponseOutparam,
        },
    });
}

use bindings::wasi::http::{outgoing_handler, types as wit};

/// The tool that performs requests.
pub(crate) const TOOL: &str = "http.fetch";

/// Bytes that one request may send.
const MAX_BODY: usize = 4 << 20;

/// Headers that the host's client sets itself: framing and where the request goes. Guests set them out of habit.
const HOST_HEADERS: [&str; 6] = ["host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te"];

/// Links the interface; once per engine.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    wit::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))?;
    outgoing_handler::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))
}

type Entries = Vec<(String, Vec<u8>)>;

/// Headers or trailers.
pub struct Fields {
    entries: Entries,
    fixed: bool,
    share: Share,
}

/// A request under construction.
pub struct OutgoingRequest {
    method: Method,
    scheme: Option<Scheme>,
    authority: Option<String>,
    path: Option<String>,
    headers: Entries,
    body: Option<Sent>,
    share: Share,
}

impl OutgoingRequest {
    /// Charges for what the request holds now.
    fn weigh(&mut self) -> wasmtime::Result<()> {
        let method = if let Method::Other(name) = &self.method { name.len() } else { 0 };
        let scheme = if let Some(Scheme::Other(name)) = &self.scheme { name.len() } else { 0 };
        let texts = [&self.authority, &self.path].into_iter().flatten().map(String::len).sum::<usize>();
        Ok(self.share.set(weight(&self.headers) + (method + scheme + texts) as u64)?)
    }
}

/// The body of a request.
pub struct OutgoingBody {
    sent: Sent,
    written: bool,
}

/// Timeouts; the host's own are shorter.
#[derive(Default)]
pub struct RequestOptions {
    connect: Option<u64>,
    first_byte: Option<u64>,
    between_bytes: Option<u64>,
}

type Answer = Result<String, Failure>;

/// To what the tool was given, with what both take.
type Answered = (Value, Answer, Option<Share>);

/// A response that may not have come yet.
pub enum FutureResponse {
    /// Performed while the guest waits for it, and not before: its body may still be written.
    Waiting(Pin<Box<dyn Future<Output = Answered> + Send>>),
    /// It has come.
    Done(Answered),
    /// The guest has it.
    Taken,
}

#[async_trait::async_trait]
impl Pollable for FutureResponse {
    async fn ready(&mut self) {
        if let Self::Waiting(answer) = self {
            let answered = answer.await;
            *self = Self::Done(answered);
        }
    }
}

/// A response.
pub struct IncomingResponse {
    status: u16,
    headers: Entries,
    body: Option<Received>,
    /// The share of memory that the headers take.
    _share: Share,
}

/// Bytes of a response, and what they take.
struct Received {
    bytes: Bytes,
    _share: Share,
}

/// The body of a response.
pub struct IncomingBody(Option<Received>);

/// Trailers of a response: there are none.
pub struct FutureTrailers;

#[async_trait::async_trait]
impl Pollable for FutureTrailers {
    async fn ready(&mut self) {}
}

/// Of servers only.
pub struct IncomingRequest;
/// Of servers only.
pub struct OutgoingResponse;
/// Of servers only.
pub struct ResponseOutparam;

impl View<'_> {
    fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.0.budget.charge(Interface::Wasi, bytes)?;
        // What was written to streams meanwhile has crossed the boundary as well.
        let written = self.0.http.as_ref().map_or(0, Held::written);
        Ok(self.0.budget.take(written)?)
    }

    /// The account of what the cell's requests and responses hold.
    fn held(&mut self) -> Held {
        let limit = self.0.limits.boundary_bytes;
        self.0.http.get_or_insert_with(|| Held::new(limit)).clone()
    }

    fn fields(&mut self, entries: Entries, fixed: bool) -> wasmtime::Result<Resource<Fields>> {
        let share = self.held().share(weight(&entries))?;
        Ok(self.0.resources.push(Fields { entries, fixed, share })?)
    }

    /// A copy of a request's or a response's own headers, charged before it is made.
    fn copied(
        &mut self,
        entries: impl Fn(&Self) -> wasmtime::Result<&Entries>,
        fixed: bool,
    ) -> wasmtime::Result<Resource<Fields>> {
        let (bytes, takes) = entries(self).map(|entries| (size(entries), weight(entries)))?;
        self.charge(bytes)?;
        let share = self.held().share(takes)?;
        let entries = entries(self)?.clone();
        Ok(self.0.resources.push(Fields { entries, fixed, share })?)
    }
}

fn size(entries: &[(String, Vec<u8>)]) -> usize {
    entries.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn is_header(name: &str, value: &[u8]) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token) && !value.iter().any(|byte| [b'\r', b'\n', 0].contains(byte))
}

impl wit::Host for View<'_> {
    fn http_error_code(&mut self, _: Resource<IoError>) -> wasmtime::Result<Option<ErrorCode>> {
        self.charge(0)?;
        Ok(None)
    }
}

impl wit::HostFields for View<'_> {
    fn new(&mut self) -> wasmtime::Result<Resource<Fields>> {
        self.charge(0)?;
        self.fields(Vec::new(), false)
    }

    fn from_list(&mut self, entries: Entries) -> wasmtime::Result<Result<Resource<Fields>, HeaderError>> {
        self.charge(size(&entries))?;
        if !entries.iter().all(|(name, value)| is_header(name, value)) {
            return Ok(Err(HeaderError::InvalidSyntax));
        }
        self.fields(entries, false).map(Ok)
    }

    fn get(&mut self, fields: Resource<Fields>, name: String) -> wasmtime::Result<Vec<Vec<u8>>> {
        self.charge(name.len())?;
        let CellState { resources, budget, .. } = &mut *self.0;
        let entries = &resources.get(&fields)?.entries;
        let found = || entries.iter().filter(|(other, _)| other.eq_ignore_ascii_case(&name)).map(|(_, value)| value);
        budget.give(found().map(Vec::len).sum())?;
        Ok(found().cloned().collect())
    }

    fn has(&mut self, fields: Resource<Fields>, name: String) -> wasmtime::Result<bool> {
        self.charge(name.len())?;
        Ok(self.0.resources.get(&fields)?.entries.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)))
    }

    fn set(
        &mut self,
        fields: Resource<Fields>,
        name: String,
        values: Vec<Vec<u8>>,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        self.charge(name.len() + values.iter().map(Vec::len).sum::<usize>())?;
        if !values.iter().all(|value| is_header(&name, value)) {
            return Ok(Err(HeaderError::InvalidSyntax));
        }
        let fields = self.0.resources.get_mut(&fields)?;
        if fields.fixed {
            return Ok(Err(HeaderError::Immutable));
        }
        fields.entries.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        let more: u64 = values.iter().map(|value| held::entry(&name, value)).sum();
        fields.share.set(weight(&fields.entries) + more)?;
        fields.entries.extend(values.into_iter().map(|value| (name.clone(), value)));
        Ok(Ok(()))
    }

    fn delete(&mut self, fields: Resource<Fields>, name: String) -> wasmtime::Result<Result<(), HeaderError>> {
        wit::HostFields::set(self, fields, name, Vec::new())
    }

    fn append(
        &mut self,
        fields: Resource<Fields>,
        name: String,
        value: Vec<u8>,
    ) -> wasmtime::Result<Result<(), HeaderError>> {
        self.charge(name.len() + value.len())?;
        if !is_header(&name, &value) {
            return Ok(Err(HeaderError::InvalidSyntax));
        }
        let fields = self.0.resources.get_mut(&fields)?;
        if fields.fixed {
            return Ok(Err(HeaderError::Immutable));
        }
        fields.share.add(held::entry(&name, &value))?;
        fields.entries.push((name, value));
        Ok(Ok(()))
    }

    fn entries(&mut self, fields: Resource<Fields>) -> wasmtime::Result<Entries> {
        self.charge(0)?;
        let CellState { resources, budget, .. } = &mut *self.0;
        let entries = &resources.get(&fields)?.entries;
        budget.give(size(entries))?;
        Ok(entries.clone())
    }

    fn clone(&mut self, fields: Resource<Fields>) -> wasmtime::Result<Resource<Fields>> {
        self.copied(|view| Ok(&view.0.resources.get(&fields)?.entries), false)
    }

    fn drop(&mut self, fields: Resource<Fields>) -> wasmtime::Result<()> {
        self.0.resources.delete(fields)?;
        Ok(())
    }
}

impl wit::HostOutgoingRequest for View<'_> {
    fn new(&mut self, headers: Resource<Fields>) -> wasmtime::Result<Resource<OutgoingRequest>> {
        self.charge(0)?;
        let Fields { entries: headers, share, .. } = self.0.resources.delete(headers)?;
        let (scheme, authority, path) = (None, None, None);
        let request = OutgoingRequest { method: Method::Get, scheme, authority, path, headers, body: None, share };
        Ok(self.0.resources.push(request)?)
    }

    fn body(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        self.charge(0)?;
        let held = self.held();
        let request = self.0.resources.get_mut(&request)?;
        if request.body.is_some() {
            return Ok(Err(()));
        }
        let sent = Sent::new(&held, MAX_BODY)?;
        request.body = Some(sent.clone());
        Ok(Ok(self.0.resources.push(OutgoingBody { sent, written: false })?))
    }

    fn method(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Method> {
        self.charge(0)?;
        Ok(self.0.resources.get(&request)?.method.clone())
    }

    fn set_method(&mut self, request: Resource<OutgoingRequest>, method: Method) -> wasmtime::Result<Result<(), ()>> {
        self.charge(if let Method::Other(name) = &method { name.len() } else { 0 })?;
        let request = self.0.resources.get_mut(&request)?;
        request.method = method;
        request.weigh()?;
        Ok(Ok(()))
    }

    fn path_with_query(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Option<String>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&request)?.path.clone())
    }

    fn set_path_with_query(
        &mut self,
        request: Resource<OutgoingRequest>,
        path: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(path.as_ref().map_or(0, String::len))?;
        let request = self.0.resources.get_mut(&request)?;
        request.path = path;
        request.weigh()?;
        Ok(Ok(()))
    }

    fn scheme(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Option<Scheme>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&request)?.scheme.clone())
    }

    fn set_scheme(
        &mut self,
        request: Resource<OutgoingRequest>,
        scheme: Option<Scheme>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(if let Some(Scheme::Other(name)) = &scheme { name.len() } else { 0 })?;
        let request = self.0.resources.get_mut(&request)?;
        request.scheme = scheme;
        request.weigh()?;
        Ok(Ok(()))
    }

    fn authority(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Option<String>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&request)?.authority.clone())
    }

    fn set_authority(
        &mut self,
        request: Resource<OutgoingRequest>,
        authority: Option<String>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(authority.as_ref().map_or(0, String::len))?;
        let request = self.0.resources.get_mut(&request)?;
        request.authority = authority;
        request.weigh()?;
        Ok(Ok(()))
    }

    fn headers(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<Resource<Fields>> {
        self.copied(|view| Ok(&view.0.resources.get(&request)?.headers), true)
    }

    fn drop(&mut self, request: Resource<OutgoingRequest>) -> wasmtime::Result<()> {
        self.0.resources.delete(request)?;
        Ok(())
    }
}

impl wit::HostOutgoingBody for View<'_> {
    fn write(&mut self, body: Resource<OutgoingBody>) -> wasmtime::Result<Result<Resource<DynOutputStream>, ()>> {
        self.charge(0)?;
        let body = self.0.resources.get_mut(&body)?;
        if std::mem::replace(&mut body.written, true) {
            return Ok(Err(()));
        }
        let stream: DynOutputStream = Box::new(body.sent.clone());
        Ok(Ok(self.0.resources.push(stream)?))
    }

    fn finish(
        &mut self,
        body: Resource<OutgoingBody>,
        trailers: Option<Resource<Fields>>,
    ) -> wasmtime::Result<Result<(), ErrorCode>> {
        self.charge(0)?;
        let body = self.0.resources.delete(body)?;
        if let Some(trailers) = trailers {
            self.0.resources.delete(trailers)?;
            return Ok(Err(ErrorCode::InternalError(Some("trailers are not sent".to_owned()))));
        }
        body.sent.finish();
        Ok(Ok(()))
    }

    fn drop(&mut self, body: Resource<OutgoingBody>) -> wasmtime::Result<()> {
        self.0.resources.delete(body)?;
        Ok(())
    }
}

impl wit::HostRequestOptions for View<'_> {
    fn new(&mut self) -> wasmtime::Result<Resource<RequestOptions>> {
        self.charge(0)?;
        Ok(self.0.resources.push(RequestOptions::default())?)
    }

    fn connect_timeout(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<Option<u64>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&options)?.connect)
    }

    fn set_connect_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(0)?;
        self.0.resources.get_mut(&options)?.connect = duration;
        Ok(Ok(()))
    }

    fn first_byte_timeout(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<Option<u64>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&options)?.first_byte)
    }

    fn set_first_byte_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(0)?;
        self.0.resources.get_mut(&options)?.first_byte = duration;
        Ok(Ok(()))
    }

    fn between_bytes_timeout(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<Option<u64>> {
        self.charge(0)?;
        Ok(self.0.resources.get(&options)?.between_bytes)
    }

    fn set_between_bytes_timeout(
        &mut self,
        options: Resource<RequestOptions>,
        duration: Option<u64>,
    ) -> wasmtime::Result<Result<(), ()>> {
        self.charge(0)?;
        self.0.resources.get_mut(&options)?.between_bytes = duration;
        Ok(Ok(()))
    }

    fn drop(&mut self, options: Resource<RequestOptions>) -> wasmtime::Result<()> {
        self.0.resources.delete(options)?;
        Ok(())
    }
}

impl outgoing_handler::Host for View<'_> {
    fn handle(
        &mut self,
        request: Resource<OutgoingRequest>,
        options: Option<Resource<RequestOptions>>,
    ) -> wasmtime::Result<Result<Resource<FutureResponse>, ErrorCode>> {
        let request = self.0.resources.delete(request)?;
        self.0.budget.charge(Interface::Tools, size(&request.headers))?;
        let options = match options {
            Some(options) => self.0.resources.delete(options)?,
            None => RequestOptions::default(),
        };
        let granted: wasmtime::Result<bool> =
            taped!(self, Tools, "tools.is-granted", json!([TOOL]), Ok(self.0.check(Capability::Tool, TOOL).is_ok()));
        if !granted? {
            return Ok(Err(ErrorCode::HttpRequestDenied));
        }
        let ask = Ask {
            held: self.held(),
            request,
            options,
            host: Arc::clone(&self.0.host),
            context: CallContext::clone(&self.0.context),
            touched: self.0.touched().clone(),
            limit: Duration::from_millis(self.0.limits.host_call_time),
        };
        Ok(Ok(self.0.resources.push(FutureResponse::Waiting(Box::pin(ask.answer())))?))
    }
}

/// A request with everything that performing it needs.
struct Ask {
    held: Held,
    request: OutgoingRequest,
    options: RequestOptions,
    host: Arc<dyn HostServices>,
    context: CallContext,
    touched: TouchLog,
    limit: Duration,
}

impl Ask {
    async fn answer(self) -> Answered {
        let too_much = |exceeded: Exceeded| Failure::host("http-memory", exceeded.to_string());
        let sent = self.request.body.as_ref().map_or(0, |body| body.read(<[u8]>::len)) as u64;
        // The body as base64, and that as part of a text.
        let in_flight = match self.held.share(sent.saturating_mul(3) + weight(&self.request.headers) * 2) {
            Ok(share) => share,
            Err(exceeded) => return (Value::Null, Err(too_much(exceeded)), None),
        };
        let arguments = match self.arguments() {
            Ok(arguments) => arguments,
            Err(failure) => return (Value::Null, Err(failure), None),
        };
        let text = arguments.to_string();
        let call = self.host.call_tool(TOOL, &text, &self.context, &self.touched);
        let answer = within(self.limit, call).await;
        let given = json!([TOOL, arguments]);
        let mut share = in_flight;
        match share.add(answer.as_ref().map_or(0, String::len) as u64) {
            Ok(()) => (given, answer, Some(share)),
            Err(exceeded) => (given, Err(too_much(exceeded)), None),
        }
    }

    /// As `http.fetch` takes them.
    fn arguments(&self) -> Result<Value, Failure> {
        let OutgoingRequest { method, scheme, authority, path, headers, body, .. } = &self.request;
        let method = match method {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(name) => name,
        };
        let scheme = match scheme {
            Some(Scheme::Http) => "http",
            Some(Scheme::Https) | None => "https",
            Some(Scheme::Other(name)) => name,
        };
        let authority = authority.as_deref().unwrap_or_default();
        let url = format!("{scheme}://{authority}{}", path.as_deref().unwrap_or("/"));
        let mut named: Map<String, Value> = Map::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            if HOST_HEADERS.contains(&name.as_str()) {
                continue;
            }
            let value = String::from_utf8_lossy(value);
            match named.get_mut(&name) {
                Some(Value::String(values)) => values.push_str(&format!(", {value}")),
                _ => drop(named.insert(name, value.into_owned().into())),
            }
        }
        let mut arguments = json!({"method": method, "url": url, "headers": named});
        if let Some(body) = body {
            if !body.is_finished() {
                return Err(Failure::host("http-body", "the body of the request was not finished"));
            }
            let encoded = body.read(|bytes| STANDARD.encode(bytes));
            if let (false, Some(arguments)) = (encoded.is_empty(), arguments.as_object_mut()) {
                arguments.insert("body_base64".to_owned(), encoded.into());
            }
        }
        let shortest = [self.options.first_byte, self.options.connect].into_iter().flatten().min();
        if let (Some(nanoseconds), Some(arguments)) = (shortest, arguments.as_object_mut()) {
            arguments.insert("timeout_ms".to_owned(), (nanoseconds / 1_000_000).max(1).into());
        }
        Ok(arguments)
    }
}
