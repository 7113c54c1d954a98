"""The plugin `python`: runs a program, such as a model's, in a cell of its own.

A program is the body of an async function, so that `return` and `await` are at its top level; the value of an
expression at its end is its result as well. It has the language, the modules of the standard library that need no
system, `input`, and the tools that it is granted.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import os
import random
import re
import sys
import time
import traceback
import types
from typing import Any

# Imported before the snapshot of the interpreter is taken: programs then import them for nothing.
import base64, bisect, calendar, collections, copy, csv, dataclasses, datetime, decimal, difflib, enum  # noqa: E401, F401
import fractions, functools, hashlib, heapq, html, io, itertools, json, math, operator, statistics  # noqa: E401, F401
import string, textwrap, typing, unicodedata, urllib.parse, uuid  # noqa: E401, F401

import opcell

#: The name of a program in tracebacks.
FILE = "program.py"

#: Bytes of a program's log that its result has; the host's log has all of it.
MAX_LOG = 64 << 10

#: Bytes of a message, and of a traceback.
MAX_MESSAGE = 2_000
MAX_TRACEBACK = 4_000


class ToolDenied(Exception):
    """The grants do not extend to the call."""

    def __init__(self, capability: str, rule: str, remedy: str | None):
        super().__init__(f"{capability} is denied: {rule}")
        self.capability, self.rule, self.remedy = capability, rule, remedy


class ToolError(Exception):
    """The tool has failed."""

    def __init__(self, reason: str, message: str, details: Any):
        super().__init__(message)
        self.reason, self.message, self.details = reason, message, details


# Tools


def call(name: str, arguments: dict[str, Any] | None = None, /, **named: Any) -> Any:
    """Calls a tool by its name."""
    if not isinstance(name, str):
        raise TypeError("call(name, arguments): the name of a tool is a string")
    if arguments is not None and not isinstance(arguments, dict):
        raise TypeError(f"call({name!r}, arguments): the arguments are a dict, or keyword arguments")
    try:
        return opcell.tools.call(name, **{**(arguments or {}), **named})
    except opcell.Denied as denied:
        raise ToolDenied(denied.capability, denied.rule, denied.remedy) from None
    except opcell.Failure as failure:
        raise ToolError(failure.reason, failure.message, failure.details) from None


def identifier(name: str) -> str:
    """A tool's name as programs write it, as the declarations have it."""
    written = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return written + "_" if keyword.iskeyword(written) or written == "None" else written


class _Tools:
    """The tools that are granted, as functions: `tools.read(path="a")`, or `tools["a/b"](path="a")`."""

    __slots__ = ("_names", "_written")

    def __init__(self) -> None:
        object.__setattr__(self, "_names", None)
        object.__setattr__(self, "_written", {})

    def _all(self) -> list[str]:
        if self._names is None:
            names = [tool["name"] for tool in opcell.tools.list()]
            for name in names:
                written = identifier(name)
                # Two names that look alike have to be written as they are.
                self._written[written] = None if written in self._written else name
            object.__setattr__(self, "_names", names)
        return self._names

    def __getitem__(self, key: str) -> Any:
        names = self._all()
        name = key if key in names else self._written.get(key) or key

        def tool(arguments: dict[str, Any] | None = None, /, **named: Any) -> Any:
            return call(name, arguments, **named)

        tool.__name__ = tool.__qualname__ = key
        return tool

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return self[key]

    def __iter__(self) -> Any:
        return iter(list(self._all()))

    def __contains__(self, key: object) -> bool:
        return key in self._all() or self._written.get(key) is not None  # type: ignore[call-overload]

    def __dir__(self) -> list[str]:
        return [written for written, name in self._written.items() if name] if self._all() else []

    def __setattr__(self, key: str, value: Any) -> None:
        raise TypeError("`tools` cannot be changed: it has the tools that are granted")


# Awaiting: a call has its result at once, so that what a program awaits never waits.


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _settled(value: Any) -> Any:
    """The result of a coroutine, which never has to wait for anything else."""
    if not inspect.iscoroutine(value):
        value = _awaited(value)
    try:
        value.send(None)
    except StopIteration as done:
        return done.value
    finally:
        value.close()
    raise RuntimeError("a program cannot wait for something other than its own work and its tools")


class _Task:
    """What `asyncio.create_task` gives: done from the start."""

    def __init__(self, work: Any):
        self._result: Any = None
        self._error: BaseException | None = None
        try:
            self._result = _settled(work)
        except Exception as error:
            self._error = error

    def __await__(self) -> Any:
        return self.result()
        yield

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def exception(self) -> BaseException | None:
        return self._error

    def done(self) -> bool:
        return True

    def cancel(self, *_: Any) -> bool:
        return False

    def add_done_callback(self, told: Any) -> None:
        told(self)


async def _gather(*works: Any, return_exceptions: bool = False) -> list[Any]:
    tasks = [_Task(work) for work in works]
    if return_exceptions:
        return [task.exception() or task.result() for task in tasks]
    return [task.result() for task in tasks]


async def _sleep(seconds: float, result: Any = None) -> Any:
    time.sleep(max(0.0, seconds))
    return result


async def _first(work: Any, timeout: float | None = None) -> Any:
    return await _awaited(work)


async def _to_thread(work: Any, /, *positional: Any, **named: Any) -> Any:
    return work(*positional, **named)


class _TaskGroup:
    async def __aenter__(self) -> _TaskGroup:
        self._tasks: list[_Task] = []
        return self

    def create_task(self, work: Any, **_: Any) -> _Task:
        task = _Task(work)
        self._tasks.append(task)
        return task

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        errors = [error for task in self._tasks if (error := task.exception())]
        if errors and kind is None:
            raise ExceptionGroup("unhandled errors in a TaskGroup", errors)  # type: ignore[type-var]


class _Lock:
    """A lock or semaphore: nothing runs beside its holder."""

    def __init__(self, *_: Any):
        pass

    async def __aenter__(self) -> _Lock:
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass


def _asyncio() -> types.ModuleType:
    """`asyncio` for programs, whose tools answer at once."""
    module = types.ModuleType("asyncio", "Coroutines of programs: each runs to its end when it is awaited.")
    offers = {
        "gather": _gather, "sleep": _sleep, "run": lambda work, **_: _settled(work), "create_task": _TaskGroup.create_task,
        "ensure_future": _Task, "wait_for": _first, "shield": _first, "to_thread": _to_thread, "Task": _Task,
        "TaskGroup": _TaskGroup, "Lock": _Lock, "Semaphore": _Lock, "BoundedSemaphore": _Lock,
        "as_completed": lambda works, **_: [_Task(work) for work in works], "iscoroutine": inspect.iscoroutine,
        "iscoroutinefunction": inspect.iscoroutinefunction, "TimeoutError": TimeoutError,
        "CancelledError": type("CancelledError", (BaseException,), {}),
    }
    offers["create_task"] = lambda work, **_: _Task(work)
    module.__dict__.update(offers)
    return module


# The program


class _Awaits(ast.NodeTransformer):
    """`await` of what needs no waiting, such as the result of a tool, is the value itself."""

    def visit_Await(self, node: ast.Await) -> ast.Await:
        self.generic_visit(node)
        awaited = ast.Call(ast.Name("__awaited__", ast.Load()), [node.value], [])
        return ast.copy_location(ast.Await(ast.copy_location(awaited, node)), node)


def _compiled(source: str) -> types.CodeType:
    tree = ast.parse(source, FILE)
    body = tree.body
    if body and isinstance(body[-1], ast.Expr) and not isinstance(body[-1].value, (ast.Yield, ast.YieldFrom)):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    _Awaits().visit(tree)
    shell = ast.parse("async def program():\n    pass", FILE)
    function = shell.body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    function.body = body or function.body
    return compile(ast.fix_missing_locations(shell), FILE, "exec")


class _Log:
    """What a program prints: to the host's log, and as far as there is room into its result."""

    encoding, errors, newlines = "utf-8", "replace", None

    def __init__(self, lines: list[str], host: Any):
        self._lines, self._host, self._rest, self._left = lines, host, "", MAX_LOG

    def write(self, text: str) -> int:
        self._host.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._add(line)
        # A line without an end is no more than what is kept of it.
        self._rest = self._rest[:MAX_LOG]
        return len(text)

    def _add(self, line: str) -> None:
        if self._left > 0:
            self._lines.append(line if len(line) <= self._left else line[: self._left] + "…")
            self._left -= len(line) + 1
            if self._left <= 0:
                self._lines.append("… (the rest is in the host's log)")

    def end(self) -> None:
        if self._rest:
            self._add(self._rest)
            self._rest = ""

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _failure(error: BaseException, source: str, logs: list[str]) -> opcell.Failure:
    """The failure of a program that ended with this error."""
    details: dict[str, Any] = {}
    lines = source.split("\n")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename == FILE:
        line = error.lineno
    reason, text = "program-failed", f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        text = f"SyntaxError: {error.msg}"
    elif isinstance(error, ToolDenied):
        reason = "denied"
        details.update(capability=error.capability, rule=error.rule, remedy=error.remedy)
    elif isinstance(error, MemoryError):
        reason, text = "out-of-memory", "the program has used up the memory of its cell (limit memory)"
    message = _cut(text, MAX_MESSAGE)
    if line:
        written = lines[line - 1].strip() if line <= len(lines) else ""
        details.update(line=line, source_line=_cut(written, 200))
        message += f", at {FILE}:{line}: `{_cut(written, 200)}`"
    if frames:
        own = "".join(f"  line {frame.lineno}, in {frame.name}\n" for frame in frames[-20:])
        details["stack"] = _cut(own, MAX_TRACEBACK)
    details["logs"] = logs
    # A tool that has failed may not fail again; the program itself would.
    if not isinstance(error, ToolError):
        details["retriable"] = False
    return opcell.Failure(reason, message, details)


@opcell.operation(
    "python/run",
    summary="Runs a program in Python, which may call the tools that are granted, and returns its result and its log.",
    arguments={
        "type": "object",
        "properties": {
            "source": {
                "type": "string",
                "description": "The body of an async function: `return` and `await` are at its top level; `input`, "
                "`call(name, arguments)` and `tools.NAME(argument=value)` are there.",
            },
            "input": {"description": "Any JSON; the program reads it as `input`."},
        },
        "required": ["source"],
        "additionalProperties": False,
    },
    data={
        "type": "object",
        "properties": {"result": {}, "logs": {"type": "array", "items": {"type": "string"}}},
        "required": ["result", "logs"],
        "additionalProperties": False,
    },
)
def run(source: str, input: Any = None) -> dict[str, Any]:
    # The interpreter's memory is the same in each cell: its randomness must not be.
    random.seed(os.urandom(32))
    sys.modules["asyncio"] = _asyncio()
    logs: list[str] = []
    log = _Log(logs, sys.stdout)
    sys.stdout = sys.stderr = log  # type: ignore[assignment]
    space = {
        "__name__": "__main__", "__awaited__": _awaited, "input": input, "tools": _Tools(), "call": call,
        "ToolDenied": ToolDenied, "ToolError": ToolError, "asyncio": sys.modules["asyncio"], "json": json,
    }
    try:
        exec(_compiled(source), space)
        program = space["program"]()
        if inspect.isasyncgen(program):
            raise SyntaxError("`yield` outside of a function")
        result = opcell.to_json(_settled(program))
        json.dumps(result, allow_nan=False)
    except (Exception, SystemExit, RecursionError) as error:
        log.end()
        raise _failure(error, source, logs) from None
    log.end()
    return {"result": result, "logs": logs}
