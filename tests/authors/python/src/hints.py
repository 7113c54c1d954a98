"""What hints name, as operations."""

import datetime
import enum
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

import small
from opcell import operation


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Item:
    name: str
    due: datetime.date
    color: Color = Color.RED
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    limit: int
    since: NotRequired[datetime.datetime]


@operation("kit/items", effects="pure")
def items(items: list[Item], options: Options | None = None, step: int = 1) -> list[Item]:
    "Moves the dates of items."
    print("items:", type(items[0]).__name__, type(items[0].due).__name__, items[0].color.name, step)
    days = datetime.timedelta(days=step)
    limit = len(items) if options is None else options["limit"]
    return [Item(item.name, item.due + days, item.color, [*item.tags, "moved"]) for item in items[:limit]]


@operation("kit/small", effects="pure")
def double(n: int) -> int:
    "Doubles a number with a package."
    return small.double(n)


@operation("kit/breaks", effects="pure")
def breaks() -> dict:
    "Fails by a mistake."
    print("about to break")
    return {"value": {}["n"]}


@operation("kit/imports-late")
def imports_late() -> str:
    import late_module  # Not imported while the plugin is built.

    return late_module.NAME
