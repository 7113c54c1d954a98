//! The interface of servers of requests, which ends the cell of a guest that calls it.

use super::{Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam, View, wit};
use wasmtime::component::Resource;
use wit::{ErrorCode, Method, Scheme};

fn serves<T>() -> wasmtime::Result<T> {
    Err(wasmtime::Error::msg("a plugin makes requests and serves none"))
}

impl wit::HostIncomingRequest for View<'_> {
    fn method(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Method> {
        serves()
    }

    fn path_with_query(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Option<String>> {
        serves()
    }

    fn scheme(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Option<Scheme>> {
        serves()
    }

    fn authority(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Option<String>> {
        serves()
    }

    fn headers(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Resource<Fields>> {
        serves()
    }

    fn consume(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<Result<Resource<IncomingBody>, ()>> {
        serves()
    }

    fn drop(&mut self, _: Resource<IncomingRequest>) -> wasmtime::Result<()> {
        serves()
    }
}

impl wit::HostOutgoingResponse for View<'_> {
    fn new(&mut self, _: Resource<Fields>) -> wasmtime::Result<Resource<OutgoingResponse>> {
        serves()
    }

    fn status_code(&mut self, _: Resource<OutgoingResponse>) -> wasmtime::Result<u16> {
        serves()
    }

    fn set_status_code(&mut self, _: Resource<OutgoingResponse>, _: u16) -> wasmtime::Result<Result<(), ()>> {
        serves()
    }

    fn headers(&mut self, _: Resource<OutgoingResponse>) -> wasmtime::Result<Resource<Fields>> {
        serves()
    }

    fn body(&mut self, _: Resource<OutgoingResponse>) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        serves()
    }

    fn drop(&mut self, _: Resource<OutgoingResponse>) -> wasmtime::Result<()> {
        serves()
    }
}

impl wit::HostResponseOutparam for View<'_> {
    fn set(
        &mut self,
        _: Resource<ResponseOutparam>,
        _: Result<Resource<OutgoingResponse>, ErrorCode>,
    ) -> wasmtime::Result<()> {
        serves()
    }

    fn drop(&mut self, _: Resource<ResponseOutparam>) -> wasmtime::Result<()> {
        serves()
    }
}
