"""A source plugin: each public function is an operation. No build: `opcell` runs this file."""

from typing import Annotated, TypedDict

from opcell import log


class Greeting(TypedDict):
    greeting: str


def greet(name: Annotated[str, "The person."]) -> Greeting:
    """Greets a person by name.

    Effects: pure
    """
    log.info(f"greeting {name}")
    return {"greeting": f"Hello, {name}!"}
