"""What the tests of all adapters share: a host, and the script that each model follows."""

import os
from pathlib import Path

from opcell import Grant, Host, Plugin, Tool

OPERATIONS = Path(os.environ["OPCELL_REPOSITORY"]) / "example-operations/dist"

PROGRAM = 'return 2 * (await call("shop.price", { article: input.article }));'

CALLS = [
    ("echo_echo", {"text": "hello"}),
    ("repo_inventory", {}),
    ("code_run", {"language": "javascript", "source": PROGRAM, "input": {"article": 7}}),
]
"""What the model asks for in its first round; in the second it says DONE."""

DONE = "done"

REFUSAL = "files workspace is denied"
REMEDY = "opcell plugin grant repo files workspace=PATH"


def price(article: int) -> int:
    """Returns the price of an article in cents."""
    return article * 100


def host():
    plugins = [
        Plugin("echo", OPERATIONS / "echo.wasm"),
        Plugin("repo", OPERATIONS / "repo.wasm"),
        Plugin.code([Grant.tool("shop.price")]),
    ]
    return Host(plugins=plugins, tools=[Tool(price, name="shop.price")]).open()


class Replies:
    """Gets every reply of an adapter."""

    def __init__(self):
        self.seen = []

    def __call__(self, reply, operation):
        self.seen.append((operation, reply.receipt.operation, reply.ok))

    def check(self, test):
        expected = [("code/run", True), ("echo/echo", True), ("repo/inventory", False)]
        test.assertEqual(sorted((operation, ok) for operation, _, ok in self.seen), expected)
        test.assertTrue(all(operation == called for operation, called, _ in self.seen))


OFFERED = ["echo/echo", "repo/inventory", "code/run"]
