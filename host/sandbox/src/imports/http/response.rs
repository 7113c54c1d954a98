//! Responses, as guests read them.

use super::{
    Answer, Entries, Fields, FutureResponse, FutureTrailers, Held, IncomingBody, IncomingResponse, Received, View,
    weight, wit,
};
use crate::recording::taped;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::Value;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynInputStream, DynPollable, InputStream, Pollable, StreamError, subscribe};
use wit::ErrorCode;

impl wit::HostFutureIncomingResponse for View<'_> {
    fn subscribe(&mut self, response: Resource<FutureResponse>) -> wasmtime::Result<Resource<DynPollable>> {
        self.charge(0)?;
        subscribe(&mut self.0.resources, response)
    }

    fn get(
        &mut self,
        response: Resource<FutureResponse>,
    ) -> wasmtime::Result<Option<Result<Result<Resource<IncomingResponse>, ErrorCode>, ()>>> {
        self.charge(0)?;
        let response = self.0.resources.get_mut(&response)?;
        let answer = match std::mem::replace(response, FutureResponse::Taken) {
            waiting @ FutureResponse::Waiting(_) => {
                *response = waiting;
                return Ok(None);
            }
            FutureResponse::Taken => return Ok(Some(Err(()))),
            FutureResponse::Done((given, answer, _held)) => {
                // A replay's host knows no tool; what it says is not asked for.
                let answer: wasmtime::Result<Answer> = taped!(self, Tools, "tools.call", given, Ok(answer));
                answer?
            }
        };
        match answer {
            Ok(text) => {
                self.0.budget.give(text.len())?;
                let held = self.held();
                let response = read(&text, &held)?;
                Ok(Some(Ok(Ok(self.0.resources.push(response)?))))
            }
            Err(failure) => {
                let code = match failure.reason.as_ref() {
                    _ if failure.denial.is_some() => ErrorCode::HttpRequestDenied,
                    "timeout" | "http-timeout" => ErrorCode::HttpResponseTimeout,
                    _ => ErrorCode::InternalError(Some(failure.message)),
                };
                if let Some(denial) = failure.denial {
                    self.0.denials.note(*denial);
                }
                Ok(Some(Ok(Err(code))))
            }
        }
    }

    fn drop(&mut self, response: Resource<FutureResponse>) -> wasmtime::Result<()> {
        self.0.resources.delete(response)?;
        Ok(())
    }
}

/// The answer of `http.fetch`.
fn read(text: &str, held: &Held) -> wasmtime::Result<IncomingResponse> {
    // While it is parsed, it is there as text, as a value and as what is kept of it.
    let _in_flight = held.share(text.len() as u64 * 2)?;
    let (status, headers, body) = parse(text).ok_or_else(|| wasmtime::Error::msg("http.fetch gave no response"))?;
    let share = held.share(weight(&headers))?;
    let taken = held.share(body.len() as u64)?;
    Ok(IncomingResponse { status, headers, body: Some(Received { bytes: body.into(), _share: taken }), _share: share })
}

fn parse(text: &str) -> Option<(u16, Entries, Vec<u8>)> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let status = u16::try_from(answer.get("status")?.as_u64()?).ok()?;
    let headers = answer.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = headers.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec()));
    let body = match (answer.get("body"), answer.get("body_base64")) {
        (Some(text), _) => text.as_str()?.as_bytes().to_vec(),
        (None, Some(encoded)) => STANDARD.decode(encoded.as_str()?).ok()?,
        (None, None) => Vec::new(),
    };
    Some((status, headers.collect(), body))
}

#[async_trait::async_trait]
impl InputStream for Received {
    fn read(&mut self, size: usize) -> Result<Bytes, StreamError> {
        if self.bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        Ok(self.bytes.split_to(size.min(self.bytes.len())))
    }
}

#[async_trait::async_trait]
impl Pollable for Received {
    async fn ready(&mut self) {}
}

impl wit::HostIncomingResponse for View<'_> {
    fn status(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<u16> {
        self.charge(0)?;
        Ok(self.0.resources.get(&response)?.status)
    }

    fn headers(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<Resource<Fields>> {
        self.copied(|view| Ok(&view.0.resources.get(&response)?.headers), true)
    }

    fn consume(
        &mut self,
        response: Resource<IncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        self.charge(0)?;
        match self.0.resources.get_mut(&response)?.body.take() {
            Some(body) => Ok(Ok(self.0.resources.push(IncomingBody(Some(body)))?)),
            None => Ok(Err(())),
        }
    }

    fn drop(&mut self, response: Resource<IncomingResponse>) -> wasmtime::Result<()> {
        self.0.resources.delete(response)?;
        Ok(())
    }
}

impl wit::HostIncomingBody for View<'_> {
    fn stream(&mut self, body: Resource<IncomingBody>) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>> {
        self.charge(0)?;
        let Some(received) = self.0.resources.get_mut(&body)?.0.take() else { return Ok(Err(())) };
        let stream: DynInputStream = Box::new(received);
        Ok(Ok(self.0.resources.push(stream)?))
    }

    fn finish(&mut self, body: Resource<IncomingBody>) -> wasmtime::Result<Resource<FutureTrailers>> {
        self.charge(0)?;
        self.0.resources.delete(body)?;
        Ok(self.0.resources.push(FutureTrailers)?)
    }

    fn drop(&mut self, body: Resource<IncomingBody>) -> wasmtime::Result<()> {
        self.0.resources.delete(body)?;
        Ok(())
    }
}

impl wit::HostFutureTrailers for View<'_> {
    fn subscribe(&mut self, trailers: Resource<FutureTrailers>) -> wasmtime::Result<Resource<DynPollable>> {
        self.charge(0)?;
        subscribe(&mut self.0.resources, trailers)
    }

    fn get(
        &mut self,
        _: Resource<FutureTrailers>,
    ) -> wasmtime::Result<Option<Result<Result<Option<Resource<Fields>>, ErrorCode>, ()>>> {
        self.charge(0)?;
        Ok(Some(Ok(Ok(None))))
    }

    fn drop(&mut self, trailers: Resource<FutureTrailers>) -> wasmtime::Result<()> {
        self.0.resources.delete(trailers)?;
        Ok(())
    }
}
