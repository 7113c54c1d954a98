"""Python functions as tools: their schemas, and the threads on which they are called."""

from __future__ import annotations

import asyncio
import collections.abc
import dataclasses
import enum
import inspect
import queue
import threading
import types
import typing
from typing import Any, Callable, Mapping, Optional, Union, get_args, get_origin, get_type_hints

from ._errors import ToolFailure

MAX_THREADS = 64
"""Threads that call tools at one time; further calls wait for one of them."""

_MESSAGE_CHARS = 1_000


class ToolContext:
    """The caller of a tool: a parameter with this type gets it, and is not an argument."""

    __slots__ = ("_call",)

    def __init__(self, call: Any) -> None:
        self._call = call

    @property
    def caller(self) -> str:
        """``plugin``, ``step`` or ``model``."""
        return self._call.caller

    @property
    def plugin(self) -> Optional[str]:
        """The name of the plugin that calls."""
        return self._call.plugin

    @property
    def run(self) -> str:
        """The ID of the run, or of the call outside of a run."""
        return self._call.run

    @property
    def idempotency_key(self) -> str:
        """The key by which a call that is made again is recognised."""
        return self._call.idempotency_key

    @property
    def user(self) -> Optional[str]:
        """The user on whose behalf the call is."""
        return self._call.user

    @property
    def tenant(self) -> Optional[str]:
        """The tenant on whose behalf the call is."""
        return self._call.tenant

    @property
    def cancelled(self) -> bool:
        """``True`` if the caller no longer waits: a long function looks at it and returns."""
        return self._call.is_cancelled()


class Tool:
    """A Python function that plugins, steps and models call by a name."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: Optional[str] = None,
        *,
        description: Optional[str] = None,
        schema: Optional[Mapping[str, Any]] = None,
        effects: str = "once",
        plugins: bool = True,
        documents: bool = True,
    ) -> None:
        self.function = function
        self.name: str = name or function.__name__
        text = inspect.cleandoc(description or function.__doc__ or "")
        if not text:
            raise TypeError(f"the tool `{self.name}` has no description: write a docstring")
        self.description: str = text.split("\n\n")[0].replace("\n", " ")
        self.effects = effects
        self.plugins = plugins
        self.documents = documents
        self._parameters = _parameters(self.name, function)
        self.schema: Mapping[str, Any] = dict(schema) if schema is not None else _schema(self.name, self._parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _submit(self, call: Any) -> None:
        _WORKERS.submit(self, call)

    def _perform(self, call: Any) -> None:
        """Performs one call on a worker. Whatever the function raises is a failure of the call."""
        try:
            given = call.arguments()
            arguments: "dict[str, Any]" = {}
            for parameter in self._parameters:
                if parameter.is_context:
                    arguments[parameter.name] = ToolContext(call)
                elif parameter.name in given:
                    arguments[parameter.name] = parameter.read(given.pop(parameter.name))
            arguments.update(given)
            result = self.function(**arguments)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            call.succeed(_written(result))
        except ToolFailure as failure:
            call.fail(str(failure.code), str(failure.message), bool(failure.retriable))
        except BaseException as error:
            call.fail("tool-failed", f"the tool `{self.name}` raised {_described(error)}", False)


def tool(function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """Makes a tool of a function: ``@tool``, or ``@tool(name="shop.price", effects="pure")``.

    The schema of its arguments follows from the type hints, its description is the docstring's first paragraph.
    """
    if function is None:
        return lambda function: Tool(function, **options)
    return Tool(function, **options)


def _described(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: B902 - the text of an error is the tool's as well
        text = ""
    return f"{type(error).__name__}: {text[:_MESSAGE_CHARS]}" if text else type(error).__name__


class _Workers:
    """Daemon threads of Python's own: one that blocks does not hold up the end of the interpreter."""

    def __init__(self) -> None:
        self._calls: "queue.SimpleQueue[tuple[Any, Any]]" = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0

    def submit(self, tool: Any, call: Any) -> None:
        with self._lock:
            starts = self._free <= 0 and self._threads < MAX_THREADS
            if starts:
                self._threads += 1
            else:
                self._free -= 1
        self._calls.put((tool, call))
        if starts:
            threading.Thread(target=self._work, name="opcell-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            tool, call = self._calls.get()
            if not call.is_cancelled():
                tool._perform(call)
            del tool, call
            with self._lock:
                self._free += 1


_WORKERS = _Workers()


# Schemas of type hints.


@dataclasses.dataclass(frozen=True)
class _Parameter:
    name: str
    hint: Any
    is_required: bool
    is_context: bool

    def read(self, value: Any) -> Any:
        return _read(self.hint, value)


def _parameters(name: str, function: Callable[..., Any]) -> "list[_Parameter]":
    inner = inspect.unwrap(function)
    # Without the defaults: Python 3.10 takes one of `None` for a hint.
    annotated = types.SimpleNamespace(__annotations__=getattr(inner, "__annotations__", {}))
    hints = get_type_hints(annotated, getattr(inner, "__globals__", {}), include_extras=True)
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"the parameter `{parameter.name}` of the tool `{name}` cannot be given by its name")
        hint = hints.get(parameter.name, Any)
        found.append(_Parameter(parameter.name, hint, parameter.default is parameter.empty, hint is ToolContext))
    return found


def _schema(name: str, parameters: "list[_Parameter]") -> "dict[str, Any]":
    arguments = [parameter for parameter in parameters if not parameter.is_context]
    properties = {}
    for parameter in arguments:
        try:
            properties[parameter.name] = schema_of(parameter.hint)
        except TypeError as error:
            raise TypeError(f"the parameter `{parameter.name}` of the tool `{name}`: {error}") from None
    required = [parameter.name for parameter in arguments if parameter.is_required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError:
        return None
    return pydantic


def schema_of(hint: Any) -> "dict[str, Any]":
    """Returns the JSON Schema of a type hint."""
    if hint is Any:
        return {}
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        schema = schema_of(arguments[0])
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if _is_union(origin):
        return {"anyOf": [schema_of(argument) for argument in arguments]}
    if hint in (list, tuple) or origin in (list, collections.abc.Sequence):
        return {"type": "array", "items": schema_of(arguments[0])} if arguments else {"type": "array"}
    if hint is dict or origin in (dict, collections.abc.Mapping):
        if not arguments:
            return {"type": "object"}
        if arguments[0] is not str:
            raise TypeError("keys of a dict are of the type `str`")
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if typing.is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        properties = {name: schema_of(of) for name, of in hints.items()}
        required = sorted(hint.__required_keys__)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        fields = dataclasses.fields(hint)
        missing = dataclasses.MISSING
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        properties = {f.name: schema_of(hints[f.name]) for f in fields}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    pydantic = _pydantic()
    if pydantic is not None:
        return pydantic.TypeAdapter(hint).json_schema()
    shown = getattr(hint, "__name__", None) or str(hint)
    raise TypeError(f"no JSON Schema follows from the type `{shown}`; give one as `schema=`")


def _read(hint: Any, value: Any) -> Any:
    """Makes of JSON what a hint says: dataclasses, enums and models of pydantic."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _read(arguments[0], value)
    if origin in (list, collections.abc.Sequence) and arguments:
        return [_read(arguments[0], item) for item in value]
    if origin in (dict, collections.abc.Mapping) and arguments:
        return {key: _read(arguments[1], item) for key, item in value.items()}
    if _is_union(origin):
        optional = [argument for argument in arguments if argument is not type(None)]
        return _read(optional[0], value) if value is not None and len(optional) == 1 else value
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        return hint(**{name: _read(hints[name], item) for name, item in value.items()})
    if isinstance(hint, type) and hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    return value


def _written(result: Any) -> Any:
    """The JSON of a dataclass or of a model of pydantic; the native module reads everything else."""
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.asdict(result)
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    return result
