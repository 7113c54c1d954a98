"""JSON Schemas of type hints, the values that hints name from JSON, and JSON of what functions return."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import types
import typing
import uuid
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


#: Types whose values are texts: the format, and what makes a value of a text.
_TEXTS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    datetime.datetime: ("date-time", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    uuid.UUID: ("uuid", uuid.UUID),
}

#: Hints in which the one that is looked at lies.
_OPEN: list[Any] = []


class Unfit(ValueError):
    """A JSON value that is not what its hint says."""


def _is_known(hint: Any) -> bool:
    try:
        return hint in _SCALARS
    except TypeError:
        return False


def _is_pydantic(hint: Any) -> bool:
    return inspect.isclass(hint) and (hasattr(hint, "model_validate") or hasattr(hint, "parse_obj"))


def _is_named_tuple(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _bare(hint: Any) -> Any:
    """A hint without what only describes it."""
    while True:
        origin = typing.get_origin(hint)
        if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final):
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, getattr(typing, "TypeAliasType", ())):
            hint = hint.__value__
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        else:
            return hint


def of_type(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type hint. A hint that JSON cannot express is an error here, not at the first call."""
    if hint in _OPEN:
        raise TypeError(f"{hint!r} refers to itself, which a schema of hints cannot; give one with arguments=… or data=…")
    _OPEN.append(hint)
    try:
        return _of_type(hint)
    finally:
        _OPEN.pop()


def _of_type(hint: Any) -> dict[str, Any]:
    if _is_known(hint):
        return dict(_SCALARS[hint])
    if inspect.isclass(hint) and hint in _TEXTS:
        return {"type": "string", "format": _TEXTS[hint][0]}
    if hint is decimal.Decimal:
        return {"type": ["number", "string"]}
    if _is_pydantic(hint):
        return hint.model_json_schema() if hasattr(hint, "model_json_schema") else hint.schema()
    if _is_named_tuple(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        items = [of_type(hints.get(name, Any)) for name in hint._fields]
        needed = len(items) - len(hint._field_defaults)
        return {"type": "array", "prefixItems": items, "items": False, "minItems": needed}
    if typing.get_origin(hint) is not typing.Annotated and _bare(hint) is not hint:
        return of_type(_bare(hint))
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        described = [part for part in parts[1:] if isinstance(part, str)]
        return of_type(parts[0]) | ({"description": described[0]} if described else {})
    if origin is typing.Literal:
        return {"enum": [part.value if isinstance(part, enum.Enum) else part for part in parts]}
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
        fields = [f for f in dataclasses.fields(hint) if f.init]
        required = [f.name for f in fields if (f.default, f.default_factory) == without]
        schema = _object({f.name: hints[f.name] for f in fields}, required)
        for field in fields:
            if field.default is not dataclasses.MISSING:
                schema["properties"][field.name].setdefault("default", to_json(field.default))
        return schema
    raise TypeError(f"{hint!r} has no JSON Schema; give one with arguments=… or data=…")


def _object(hints: dict[str, Any], required: list[str]) -> dict[str, Any]:
    properties = {name: of_type(hint) for name, hint in hints.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def value_of(hint: Any, value: Any, at: str) -> Any:
    """The value that a hint names, from a JSON value. `at` is where it is: `/items/0/price`.

    What the schema has checked is not checked again; `Unfit` where a text is not a date, for example.
    """
    hint = _bare(hint)
    if _is_known(hint):
        # JSON has one kind of number: 2.0 is an integer, and 2 is a float.
        if hint is int and isinstance(value, float) and value.is_integer():
            return int(value)
        return float(value) if hint is float and isinstance(value, int) and not isinstance(value, bool) else value
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(parts, value, at)
    if origin is typing.Literal:
        return next((part for part in parts if isinstance(part, enum.Enum) and part.value == value), value)
    if origin in (list, set, frozenset) and isinstance(value, list):
        return origin(value_of(parts[0], item, f"{at}/{place}") for place, item in enumerate(value))
    if origin is tuple and isinstance(value, list):
        kinds = [parts[0]] * len(value) if len(parts) == 2 and parts[1] is Ellipsis else parts
        return tuple(value_of(kind, item, f"{at}/{place}") for place, (kind, item) in enumerate(zip(kinds, value)))
    if origin is dict and isinstance(value, dict):
        return {_key(parts[0], name, at): value_of(parts[1], inner, f"{at}/{name}") for name, inner in value.items()}
    if not inspect.isclass(hint):
        return value
    if hint in _TEXTS:
        return _made(_TEXTS[hint][1], value, at, f"a text of the format {_TEXTS[hint][0]}")
    if hint is decimal.Decimal:
        return _made(lambda text: decimal.Decimal(str(text)), value, at, "a decimal number")
    if issubclass(hint, enum.Enum):
        return _made(hint, value, at, f"one of {[member.value for member in hint]}")
    if _is_pydantic(hint):
        return _made(hint.model_validate if hasattr(hint, "model_validate") else hint.parse_obj, value, at, hint.__name__)
    if _is_named_tuple(hint) and isinstance(value, list):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(*(value_of(hints.get(name, Any), item, f"{at}/{place}")
                      for place, (name, item) in enumerate(zip(hint._fields, value))))
    if isinstance(value, dict) and (typing.is_typeddict(hint) or dataclasses.is_dataclass(hint)):
        hints = typing.get_type_hints(hint, include_extras=True)
        members = {name: value_of(hints.get(name, Any), inner, f"{at}/{name}") for name, inner in value.items()}
        if typing.is_typeddict(hint):
            return members
        return _made(lambda given: hint(**given), members, at, hint.__name__)
    return value


def _made(make: Callable[[Any], Any], value: Any, at: str, expected: str) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Unfit(f"at `{at}`: {value!r} is not {expected}: {error}") from None


def _key(hint: Any, name: str, at: str) -> Any:
    """A key of an object as its hint says: JSON has texts only."""
    hint = _bare(hint)
    if hint in (int, float):
        return _made(hint, name, at, f"an object whose keys are of {hint.__name__}")
    return value_of(hint, name, at)


def _fits(hint: Any, value: Any) -> int:
    """How well a JSON value fits one of several hints: not at all, perhaps, or for sure."""
    hint = _bare(hint)
    origin = typing.get_origin(hint) or hint
    if hint in (Any, inspect.Parameter.empty):
        return 1
    if value is None:
        return 2 if hint in (None, type(None)) else 0
    if origin is typing.Literal:
        return 2 if any((part.value if isinstance(part, enum.Enum) else part) == value for part in typing.get_args(hint)) else 0
    if not inspect.isclass(origin):
        return 1
    if isinstance(value, bool):
        return 2 if origin is bool else 0
    if issubclass(origin, enum.Enum):
        return 2 if any(member.value == value for member in origin) else 0
    if origin in _TEXTS:
        return 2 if isinstance(value, str) else 0
    if origin is decimal.Decimal:
        return 1 if isinstance(value, (int, float, str)) else 0
    if isinstance(value, int):
        return 2 if origin is int else 1 if origin is float else 0
    if isinstance(value, float):
        return 2 if origin is float else 1 if origin is int and value.is_integer() else 0
    if isinstance(value, str):
        return 1 if origin is str else 0
    if isinstance(value, list):
        return 2 if issubclass(origin, (list, tuple, set, frozenset)) else 0
    if typing.is_typeddict(origin) or dataclasses.is_dataclass(origin):
        names = set(typing.get_type_hints(origin))
        needed = set(of_type(origin)["required"])
        return 2 if needed <= set(value) <= names else 0
    return 1 if issubclass(origin, dict) or _is_pydantic(origin) else 0


def _one_of(hints: tuple[Any, ...], value: Any, at: str) -> Any:
    """The value of the first of the hints that fit best and can be made of it."""
    ranked = sorted(((-_fits(hint, value), place) for place, hint in enumerate(hints) if _fits(hint, value) > 0))
    wrong: Unfit | None = None
    for _, place in ranked:
        try:
            return value_of(hints[place], value, at)
        except Unfit as error:
            wrong = wrong or error
    if wrong is not None:
        raise wrong
    return value


def of_arguments(run: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, as one object; `context` is not among them."""
    hints = typing.get_type_hints(run, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(run).parameters.items():
        if name == "context":
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"parameter `{name}`: arguments have names, so that `*args`, `**kwargs` and `/` cannot be used")
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
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if hasattr(value, "parse_obj") and hasattr(value, "dict") and not isinstance(value, type):
        return to_json(value.dict())
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, dict):
        return {str(key.value if isinstance(key, enum.Enum) else key): to_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(part) for part in value]
    return value
