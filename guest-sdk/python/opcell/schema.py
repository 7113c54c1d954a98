"""JSON Schemas of type hints, and JSON values of what functions return."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from typing import Any, Callable

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
    inspect.Parameter.empty: {},
}


def of_type(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type hint. A hint that JSON cannot express is an error here, not at the first call."""
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        described = [part for part in parts[1:] if isinstance(part, str)]
        return of_type(parts[0]) | ({"description": described[0]} if described else {})
    if origin is typing.Literal:
        return {"enum": list(parts)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(part) for part in parts]}
    if origin in (list, set, frozenset, tuple) and origin is not tuple:
        return {"type": "array", "items": of_type(parts[0])}
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return {"type": "array", "items": of_type(parts[0])}
        return {"type": "array", "prefixItems": [of_type(part) for part in parts], "items": False, "minItems": len(parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(parts[1])}
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return _object(hints, [name for name in hints if name in hint.__required_keys__])
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        without = (dataclasses.MISSING, dataclasses.MISSING)
        required = [f.name for f in dataclasses.fields(hint) if (f.default, f.default_factory) == without]
        return _object(hints, required)
    raise TypeError(f"{hint!r} has no JSON Schema; give one with arguments=… or data=…")


def _object(hints: dict[str, Any], required: list[str]) -> dict[str, Any]:
    properties = {name: of_type(hint) for name, hint in hints.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def of_arguments(run: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, as one object; `context` is not among them."""
    hints = typing.get_type_hints(run, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(run).parameters.items():
        if name == "context":
            continue
        schema = of_type(hints.get(name, inspect.Parameter.empty))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        else:
            schema["default"] = to_json(parameter.default)
        properties[name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def of_result(run: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of what a function returns; anything, where it says nothing or wraps it in `Success`."""
    hint = typing.get_type_hints(run, include_extras=True).get("return", inspect.Parameter.empty)
    if inspect.isclass(hint) and hint.__name__ == "Success":
        return {}
    return of_type(hint)


def to_json(value: Any) -> Any:
    """What `json.dumps` takes: data classes become objects, enumerations their values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_json(dataclasses.asdict(value))
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(part) for part in value]
    return value
