"""A component of a WIT of its own, not of opcell:plugin."""

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports import outgoing_handler
from wit_world.imports.types import Fields, IncomingBody, OutgoingRequest, Scheme_Http


class Pages(exports.Pages):
    def fetch(self, authority: str, path: str) -> str:
        request = OutgoingRequest(Fields.from_list([("accept", b"text/plain")]))
        request.set_scheme(Scheme_Http())
        request.set_authority(authority)
        request.set_path_with_query(path)
        try:
            future = outgoing_handler.handle(request, None)
        except Err as error:
            raise Err(f"not sent: {type(error.value).__name__}")
        future.subscribe().block()
        answer = future.get()
        if not isinstance(answer, Ok) or not isinstance(answer.value, Ok):
            raise Err(f"no answer: {answer}")
        response = answer.value.value
        stream = response.consume().stream()
        text = b""
        while True:
            try:
                part = stream.blocking_read(4096)
            except Err:
                break
            text += part
        return f"{response.status()} {text.decode()}"

    def measure(self, text: str) -> int:
        return len(text)
