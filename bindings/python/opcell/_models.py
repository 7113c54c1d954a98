"""Python functions as models."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Callable, Iterator, Mapping, Optional, Sequence, Union

from ._errors import ToolFailure
from ._tools import _WORKERS, _described

__all__ = ["Answer", "Message", "Model", "Round", "ToolRequest"]

MAX_TEXT = 64 << 20
"""Characters of an answer that comes in pieces."""


@dataclass(frozen=True)
class ToolRequest:
    """A call of a tool that a model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """A message of a conversation."""

    role: str
    """``user``, ``assistant`` or ``tool``."""
    content: Any
    """A text, or a list of parts with pictures and files."""
    tool_calls: Sequence[ToolRequest] = ()
    """Of an assistant: the calls that it asked for."""
    tool_call_id: Optional[str] = None
    """Of a tool: the call that it answers."""
    is_error: bool = False
    """Of a tool: ``True`` if the call failed."""

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> "Message":
        calls = [ToolRequest(call["id"], call["name"], call.get("arguments") or {}) for call in data.get("tool-calls") or ()]
        content, is_error = data.get("content"), bool(data.get("is-error"))
        return cls(data["role"], content, calls, data.get("tool-call-id"), is_error)


@dataclass(frozen=True)
class Answer:
    """The answer of a model."""

    content: str = ""
    tool_calls: Sequence[ToolRequest] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Optional[float] = None
    """In dollars."""
    model: Optional[str] = None
    """The model that answered; by default the one that was asked."""

    def _data(self, shown: str) -> "dict[str, Any]":
        usage = {"inputTokens": self.input_tokens, "outputTokens": self.output_tokens, "cost": self.cost}
        calls = [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in self.tool_calls]
        return {"content": self.content or shown, "toolCalls": calls, "usage": usage, "model": self.model}


@dataclass(frozen=True)
class Round:
    """One round of a session: what a model answers."""

    model: str
    """The model as the session names it, such as ``mine/large``."""
    system: str
    """The system prompt."""
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    """The tools, each with ``name``, ``description`` and ``parameters``."""
    schema: Optional[Mapping[str, Any]]
    """``name`` and ``schema`` of the answer, if the session wants JSON."""
    settings: Mapping[str, Any]
    """Settings of the session, such as ``temperature``."""
    run: str
    """The run's ID."""
    _native: Any = field(repr=False)

    @classmethod
    def _of(cls, native: Any) -> "Round":
        data = native.request()
        messages = [Message._of(message) for message in data["messages"]]
        rest = (data["tools"], data["schema"], data["settings"] or {}, data["run"], native)
        return cls(data["model"], data["system"], messages, *rest)

    def text(self, piece: str) -> None:
        """Shows a piece of the text before the answer is complete."""
        self._native.text(piece)

    @property
    def cancelled(self) -> bool:
        """``True`` if the session no longer waits: a long function looks at it and returns."""
        return self._native.is_cancelled()


Pieces = Union[Iterator[Union[str, Answer]], AsyncIterator[Union[str, Answer]]]
Model = Callable[[Round], Any]
"""Returns a text or an :class:`Answer`, also as a coroutine; or yields the pieces of a text, and then an answer."""


class _Shown:
    """The pieces of an answer."""

    def __init__(self, round: Round) -> None:
        self._round, self._length, self._answer = round, 0, Answer()
        self._pieces: "list[str]" = []

    def take(self, piece: Any) -> bool:
        """Shows a piece. Returns ``False`` if no one waits for another."""
        if isinstance(piece, Answer):
            self._answer = piece
            return True
        if not isinstance(piece, str):
            raise TypeError(f"a model yields texts, and at last an Answer, not {type(piece).__name__}")
        self._length += len(piece)
        if self._length > MAX_TEXT:
            raise ValueError(f"the answer has more than {MAX_TEXT} characters")
        self._pieces.append(piece)
        self._round.text(piece)
        return not self._round.cancelled

    def data(self) -> "dict[str, Any]":
        return self._answer._data("".join(self._pieces))


class PythonModel:
    """A function that answers rounds, on a thread of Python's own."""

    def __init__(self, function: Model) -> None:
        if not callable(function):
            raise TypeError(f"a model is a function of a round, not {type(function).__name__}")
        self._function = function

    def submit(self, native: Any) -> None:
        _WORKERS.submit(self, native)

    def _perform(self, native: Any) -> None:
        name = "a model"
        try:
            round = Round._of(native)
            name = round.model
            native.succeed(self._answered(round))
        except ToolFailure as failure:
            native.fail(str(failure.code), str(failure.message), bool(failure.retriable))
        except BaseException as error:
            native.fail("model-failed", f"the model `{name}` raised {_described(error)}", False)

    def _answered(self, round: Round) -> "dict[str, Any]":
        result = self._function(round)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        shown = _Shown(round)
        if inspect.isgenerator(result):
            for piece in result:
                if not shown.take(piece):
                    break
            return shown.data()
        if inspect.isasyncgen(result):
            return asyncio.run(_collected(shown, result))
        if isinstance(result, str):
            return Answer(result)._data("")
        if isinstance(result, Answer):
            return result._data("")
        raise TypeError(f"a model answers with a text or an Answer, not {type(result).__name__}")


async def _collected(shown: _Shown, pieces: Any) -> "dict[str, Any]":
    async for piece in pieces:
        if not shown.take(piece):
            break
    return shown.data()


def submitted(models: Mapping[str, Model]) -> "list[tuple[str, Callable[[Any], None]]]":
    """Returns providers as the native module takes them."""
    return [(name, PythonModel(model).submit) for name, model in models.items()]
