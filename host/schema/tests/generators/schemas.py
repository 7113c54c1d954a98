# Prints the tools that a server of the official SDK lists for types of Python and pydantic, as the JavaScript one does.
import asyncio
import json
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union
from uuid import UUID

import pydantic
from pydantic import (AnyUrl, Base64Bytes, BaseModel, ByteSize, ConfigDict, Discriminator, Field, Json, SecretStr, Tag,
                      TypeAdapter, conint, conlist, constr)
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

T = TypeVar("T")


class Color(str, Enum):
    red = "r"
    blue = "b"


class Level(IntEnum):
    low = 1
    high = 2


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Row(TypedDict, total=False):
    name: str
    count: int


class Tree(BaseModel):
    """A tree."""

    name: str
    kids: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: Optional["Page[T]"] = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0, lt=10)


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: set[str] = set()


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    from_: str = Field(alias="from", description="where")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


@dataclass
class Data:
    a: int
    b: str = "b"


TYPES = {
    "text": str, "number": float, "integer": int, "flag": bool, "nothing": None, "anything": Any, "bytes": bytes,
    "decimal": Decimal, "date": date, "datetime": datetime, "time": time, "duration": timedelta, "uuid": UUID,
    "url": AnyUrl, "path": Path, "ipv4": IPv4Address, "network": IPv6Network, "secret": SecretStr, "size": ByteSize,
    "base64": Base64Bytes, "json": Json[dict[str, int]], "list": list[str], "set": set[int], "frozen": frozenset[str],
    "tuple": tuple[int, str], "tuples": tuple[float, ...], "empty": tuple[()], "record": dict[str, int],
    "by_number": dict[int, str], "by_color": dict[Color, int], "optional": Optional[int], "union": Union[int, str],
    "new_union": "int | str | None", "literal": Literal["a", 1, None], "color": Color, "level": Level, "point": Point, "row": Row,
    "tree": Tree, "page": Page[Tree], "pages": dict[str, Page[Color]], "closed": Closed, "open": Open, "data": Data,
    "animal": Annotated[Union[Cat, Dog], Field(discriminator="kind")], "bounded": conint(gt=0, le=10, multiple_of=5),
    "tagged": Annotated[Union[Annotated[Cat, Tag("c")], Annotated[Dog, Tag("d")]], Discriminator(lambda value: "c")],
    "pattern": constr(pattern=r"^[a-z]\w*$"), "some": conlist(int, min_length=1, max_length=3),
    "looks": Annotated[str, pydantic.StringConstraints(min_length=2), Field(json_schema_extra={"pattern": "^(?!x).*$"})],
    "step": Annotated[float, Field(multiple_of=0.1, description="a step", examples=[0.1])],
}


def main():
    out = {"pydantic": {}, "pydantic, by alias and reference": {}}
    for name, kind in TYPES.items():
        try:
            model = pydantic.create_model(f"Arguments_{name}", at=(kind, ...))
            out["pydantic"][name] = {"inputSchema": model.model_json_schema()}
            template = "#/$defs/{model}"
            out["pydantic, by alias and reference"][name] = {
                "inputSchema": TypeAdapter(list[model]).json_schema(ref_template=template, mode="serialization")
            }
        except Exception as error:
            print(f"pydantic {name}: {error}", file=sys.stderr)
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Server
    out["mcp"] = {}
    for name, kind in TYPES.items():
        def tool(at, more=None):
            return at

        tool.__annotations__ = {"at": kind, "more": Optional[kind] if not isinstance(kind, str) else kind, "return": kind}
        try:
            server = Server("s")
            server.tool(name=name)(tool)
            listed = asyncio.run(server.list_tools())[0].model_dump(mode="json", by_alias=True, exclude_none=True)
            out["mcp"][name] = {key: listed[key] for key in ("inputSchema", "outputSchema") if key in listed}
        except Exception as error:
            print(f"mcp {name}: {str(error)[:200]}", file=sys.stderr)
    json.dump(out, sys.stdout)


main()
