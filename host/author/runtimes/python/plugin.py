"""The plugin `python`: runs a program, such as a model's, in a cell of its own.

A program is the body of an async function, so that `return` and `await` are at its top level; the value of an
expression at its end is its result as well. It has the language, the modules of the standard library that need no
system, `input`, and the tools that it is granted.

A source plugin is this component with a source in it, whose functions are the operations: see the end.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import keyword
import linecache
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


def _raised(error: opcell.Failure) -> Exception:
    """A failed call as programs catch it."""
    if isinstance(error, opcell.Denied):
        return ToolDenied(error.capability, error.rule, error.remedy)
    return ToolError(error.reason, error.message, error.details)


class _Tool:
    """A tool to call. What the program awaits, or hands to `asyncio`, is started instead: see `_Positions`."""

    __slots__ = ("name", "__name__", "__qualname__")

    def __init__(self, name: str, written: str):
        self.name, self.__name__, self.__qualname__ = name, written, written

    def __call__(self, arguments: dict[str, Any] | None = None, /, **named: Any) -> Any:
        try:
            return opcell.tools.call(self.name, **self._arguments(arguments, named))
        except opcell.Failure as error:
            raise _raised(error) from None

    def start(self, arguments: dict[str, Any] | None = None, /, **named: Any) -> _Call:
        """Takes the call into the queue of those that are made when the program waits."""
        return LOOP.begin(self.name, opcell.tools._written(self._arguments(arguments, named)))

    def _arguments(self, arguments: dict[str, Any] | None, named: dict[str, Any]) -> dict[str, Any]:
        if arguments is not None and not isinstance(arguments, dict):
            raise TypeError(f"call({self.name!r}, arguments): the arguments are a dict, or keyword arguments")
        return {**(arguments or {}), **named}


class _ByName:
    """`call(name, arguments)`: calls a tool by its name."""

    __slots__ = ()
    __name__ = __qualname__ = "call"

    def __call__(self, name: str, arguments: dict[str, Any] | None = None, /, **named: Any) -> Any:
        return self._tool(name)(arguments, **named)

    def start(self, name: str, arguments: dict[str, Any] | None = None, /, **named: Any) -> _Call:
        return self._tool(name).start(arguments, **named)

    def _tool(self, name: str) -> _Tool:
        if not isinstance(name, str):
            raise TypeError("call(name, arguments): the name of a tool is a string")
        return _Tool(name, name)


def _started(function: Any) -> Any:
    """What starts a call, where the function is a tool; the function itself where it is not."""
    return function.start if isinstance(function, (_Tool, _ByName)) else function


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
        return _Tool(key if key in names else self._written.get(key) or key, key)

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


# Calls at once


#: Calls that are started with the host at once: each wait names all of them. The host has its own limit.
MAX_STARTED = 256


#: Seconds of the longest timer.
MAX_TIMER = 366 * 24 * 3600


class ProgramStuck(Exception):
    """The program waits for something that nothing settles."""


class _Call(asyncio.Future):
    """A call that is made when the program waits: alone, or at once with others."""

    #: The line of the program that made it.
    line: int | None = None

    def fail(self, error: opcell.Failure) -> None:
        raised = _raised(error)
        raised.line = self.line  # type: ignore[attr-defined]
        self.set_exception(raised)

    def _unready(self, *_: Any) -> Any:
        raise TypeError("the call has its result only after `await`")

    __getitem__ = __add__ = __radd__ = __int__ = __float__ = __lt__ = __gt__ = _unready


class _Timer(asyncio.TimerHandle):
    """A timer of the host: in a run it is durable."""

    __slots__ = ()


class _Loop(asyncio.BaseEventLoop):
    """The event loop of a program: it waits for calls and timers of the host, and for nothing else."""

    def __init__(self) -> None:
        super().__init__()
        # What is to be started with the host, in order: a call with its name and the text of its arguments, or a timer.
        self._queue: collections.deque[tuple[_Call, str, str] | _Timer] = collections.deque()
        self._started: dict[int, _Call | _Timer] = {}
        self._now: float | None = None
        self.set_exception_handler(_unretrieved)

    def begin(self, name: str, arguments: str) -> _Call:
        call = _Call(loop=self)
        call.line = _line()
        self._queue.append((call, name, arguments))
        return call

    # `asyncio` asks for the time at each step, and each reading of a clock is recorded: once for each wait is enough.
    def time(self) -> float:
        if self._now is None:
            self._now = time.monotonic()
        return self._now

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> _Timer:
        _milliseconds(when - self.time())
        timer = _Timer(when, callback, args, self, context)
        self._queue.append(timer)
        return timer

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> _Timer:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        pass

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def create_task(self, work: Any, **options: Any) -> Any:
        return super().create_task(work if inspect.iscoroutine(work) else _awaited(work), **options)

    def run_in_executor(self, executor: Any, function: Any, *args: Any) -> Any:
        return self.create_task(_in_thread(function, *args))

    def _run_once(self) -> None:
        if not self._ready:
            self._make_calls(False)
        self._run_ready()

    def _run_ready(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    @staticmethod
    def _is_over(one: tuple[_Call, str, str] | _Call | _Timer) -> bool:
        return (one[0] if isinstance(one, tuple) else one).cancelled()

    def has_calls(self) -> bool:
        """Returns true if calls are to be made, or are in progress."""
        calls = [one for one in (*self._queue, *self._started.values()) if not isinstance(one, _Timer)]
        return not all(map(self._is_over, calls))

    def _make_calls(self, has_ended: bool) -> None:
        """Starts what is in the queue, and waits until something that is in progress has ended.

        A call that is made alone is made as one that the program awaits. A program that has ended waits for no timer.
        """
        self._now = None
        while self._queue and self._is_over(self._queue[0]):
            self._queue.popleft()
        if len(self._queue) == 1 and not self._started and isinstance(self._queue[0], tuple):
            call, name, arguments = self._queue.popleft()
            with _Answer(call):
                call.set_result(opcell.tools._call_text(name, arguments))
            return
        while self._queue and len(self._started) < MAX_STARTED:
            one = self._queue.popleft()
            if self._is_over(one):
                continue
            if isinstance(one, tuple):
                call, name, arguments = one
                with _Answer(call):
                    self._started[opcell.tools._start_text(name, arguments)] = call
                if call.done():
                    return
            elif not has_ended:
                left = _milliseconds(one.when() - self.time())
                self._started[opcell.tools.start_timer(left)] = one
        awaited = [number for number, one in self._started.items()
                   if not (one.cancelled() or has_ended and isinstance(one, _Timer))]
        if not awaited:
            raise ProgramStuck("the program waits for something that nothing settles")
        ended = opcell.tools.wait_any(awaited)
        self._now = None
        one = self._started.pop(ended.call)
        if isinstance(one, _Timer):
            self._ready.append(self._first_due(one))
        else:
            with _Answer(one):
                one.set_result(ended.result())

    def _first_due(self, ended: _Timer) -> _Timer:
        """The timer that is due first; the one that has ended takes its place, whose end comes soon."""
        due = [(one.when(), number) for number, one in self._started.items()
               if isinstance(one, _Timer) and not one.cancelled() and one.when() < ended.when()]
        if not due:
            return ended
        _, number = min(due)
        first, self._started[number] = self._started[number], ended
        return first  # type: ignore[return-value]

    def settle(self, work: Any) -> Any:
        """Runs until this has its result, also from within what the loop runs."""
        task = self.create_task(work)
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        within = asyncio.tasks._swap_current_task(self, None)  # type: ignore[attr-defined]
        try:
            while not task.done():
                self._run_once()
        finally:
            asyncio.tasks._swap_current_task(self, within)  # type: ignore[attr-defined]
            asyncio._set_running_loop(before)
        return task.result()

    run_until_complete = settle

    def finish(self) -> None:
        """Makes the calls that the program has begun and does not await: it ends after them."""
        asyncio._set_running_loop(self)
        try:
            while self._ready or self.has_calls():
                if self._ready:
                    self._run_ready()
                else:
                    self._make_calls(True)
        finally:
            asyncio._set_running_loop(None)


class _Answer:
    """Within it, what the host refuses or a tool fails with becomes the exception of a call."""

    __slots__ = ("_call",)

    def __init__(self, call: _Call):
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, *_: Any) -> bool:
        if isinstance(error, opcell.Failure):
            self._call.fail(error)
            return True
        return False


def _line() -> int | None:
    """The line of the program that runs."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != FILE:
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None else frame.f_lineno


def _unretrieved(loop: Any, context: dict[str, Any]) -> None:
    """What the program did not wait for has failed."""
    error = context.get("exception")
    print(context.get("message") if error is None else f"not awaited: {type(error).__name__}: {error}")


async def _awaited(value: Any) -> Any:
    """`await` of what needs no waiting is the value itself."""
    return await value if inspect.isawaitable(value) else value


async def _in_thread(function: Any, /, *args: Any, **named: Any) -> Any:
    """A cell has one thread: the function is called, and a tool is started."""
    return await _awaited(_started(function)(*args, **named))


def _milliseconds(seconds: float) -> int:
    """The time of a timer."""
    if seconds > MAX_TIMER:
        raise OverflowError("a timer has at most 366 days")
    return math.ceil(max(0.0, seconds) * 1000)


def _sleep(seconds: float) -> None:
    """`time.sleep` by a timer of the host."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    opcell.tools.wait_any([opcell.tools.start_timer(_milliseconds(seconds))])


#: Made before the snapshot, as all that programs begin with.
LOOP = _Loop()

asyncio.run = lambda work, **_: LOOP.settle(work)  # type: ignore[assignment]
asyncio.to_thread = _in_thread  # type: ignore[assignment]
time.sleep = _sleep


# The program


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

#: Functions of `asyncio` that take what is awaited.
TAKES_AWAITABLES = frozenset(
    ("gather", "create_task", "ensure_future", "wait", "wait_for", "as_completed", "shield", "run", "run_until_complete")
)
#: Functions that hand on what they are given.
HANDS_ON = frozenset(("list", "tuple", "set", "dict", "enumerate", "reversed", "sorted", "iter"))
#: Methods that put what they are given into a collection.
PUTS = frozenset(("append", "add", "insert", "extend", "appendleft", "setdefault", "update"))
#: Methods of collections that hand out what is in them.
TAKES_OUT = frozenset(("values", "items", "copy", "pop", "popleft"))


class _Scope:
    """A function, or the program: the names that it binds, and those of them that hold what is awaited later."""

    def __init__(self, above: _Scope | None, is_async: bool):
        self.above, self.is_async = above, is_async
        self.bound: set[str] = set()
        self.awaited: set[str] = set()

    def of(self, name: str) -> _Scope:
        scope = self
        while name not in scope.bound and scope.above is not None:
            scope = scope.above
        return scope

    def holds(self, name: str) -> bool:
        return name in self.of(name).awaited


class _Positions(ast.NodeTransformer):
    """Finds the calls that a program awaits, or hands to `asyncio`, if only later: they are started.

    Any other call in a coroutine is awaited where it is written, so that it has its result there and yet other coroutines
    continue; elsewhere, such as in a function without `async`, it waits alone.
    """

    def __init__(self, tree: ast.AST):
        self._scopes: dict[ast.AST, _Scope] = {}
        #: The functions that are only called where what they return is awaited.
        self._handed: set[str] = set()
        self._modules, self._functions = {"asyncio"}, set()
        self._tree = tree
        self._prepare()

    # First, which names hold what is awaited later.

    def _prepare(self) -> None:
        root = _Scope(None, True)
        self._scopes[self._tree] = root
        pending: list[tuple[ast.AST, _Scope]] = [(self._tree, root)]
        places: list[tuple[ast.AST, _Scope]] = []
        loads: dict[str, int] = {}
        while pending:
            node, scope = pending.pop()
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    scope.bound.add(inner.name)
                within = scope
                if isinstance(inner, _Function):
                    within = _Scope(scope, isinstance(inner, ast.AsyncFunctionDef))
                    arguments = inner.args
                    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                    within.bound.update(one.arg for one in [*named, arguments.vararg, arguments.kwarg] if one)
                    self._scopes[inner] = within
                elif isinstance(inner, ast.Name):
                    if isinstance(inner.ctx, ast.Load):
                        loads[inner.id] = loads.get(inner.id, 0) + 1
                    else:
                        scope.bound.add(inner.id)
                elif isinstance(inner, ast.Import):
                    self._modules.update(one.asname or one.name for one in inner.names if one.name == "asyncio")
                elif isinstance(inner, ast.ImportFrom) and inner.module == "asyncio":
                    self._functions.update(
                        one.asname or one.name for one in inner.names if one.name in TAKES_AWAITABLES
                    )
                places.append((inner, within))
                pending.append((inner, within))
        self._spread(places)
        self._find_handed(places, loads)

    def _spread(self, places: list[tuple[ast.AST, _Scope]]) -> None:
        """Marks the names until nothing more is found: at most as often as there are names."""
        count = -1
        while count != (count := sum(len(scope.awaited) for scope in self._scopes.values())):
            for node, scope in places:
                for part in self._started_parts(node, scope):
                    self._mark(part, scope)

    def _mark(self, node: ast.AST, scope: _Scope) -> None:
        for root in self._roots(node):
            if isinstance(root, ast.Name):
                scope.of(root.id).awaited.add(root.id)

    def _roots(self, node: ast.AST) -> list[ast.AST]:
        """The names and calls that an expression takes its awaitables from."""
        found, pending = [], [node]
        while pending:
            node = pending.pop()
            if isinstance(node, (ast.Name, ast.Call)):
                found.append(node)
            pending.extend(self._parts(node))
        return found

    def _parts(self, node: ast.AST) -> list[ast.expr]:
        """The parts of an expression whose awaitables are its own."""
        match node:
            case ast.Starred(value=part) | ast.NamedExpr(value=part) | ast.Subscript(value=part):
                return [part]
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                return parts
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                return [part]
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.Add(), right=other):
                return [one, other]
            case ast.Call(func=ast.Name(id=name), args=parts) if name in HANDS_ON:
                return parts
            case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(body=part) | part, *_]):
                return [part]
            case ast.Call(func=ast.Attribute(value=ast.Name() as part, attr=name)) if name in TAKES_OUT:
                return [part]
        return []

    def _takes(self, function: ast.expr) -> bool:
        match function:
            case ast.Attribute(attr="create_task" | "run_until_complete"):
                return True
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                return module in self._modules and name in TAKES_AWAITABLES
            case ast.Name(id=name):
                return name in self._functions
        return False

    def _puts(self, call: ast.Call, scope: _Scope) -> bool:
        """Returns true if the call puts something into what is awaited later."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method):
                return method in PUTS and scope.holds(name)
        return False

    def _is_held(self, target: ast.expr, scope: _Scope) -> bool:
        pending = [target]
        while pending:
            match pending.pop():
                case ast.Name(id=name):
                    if scope.holds(name):
                        return True
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    pending.extend(parts)
                case ast.Starred(value=part) | ast.Subscript(value=part):
                    pending.append(part)
        return False

    def _find_handed(self, places: list[tuple[ast.AST, _Scope]], loads: dict[str, int]) -> None:
        taken: dict[str, set[ast.AST]] = {}
        for node, scope in places:
            for part in self._started_parts(node, scope):
                for root in self._roots(part):
                    function = root.func if isinstance(root, ast.Call) else root
                    if isinstance(function, ast.Name):
                        taken.setdefault(function.id, set()).add(function)
        self._handed = {name for name, uses in taken.items() if len(uses) == loads.get(name)}

    def _started_parts(self, node: ast.AST, scope: _Scope) -> list[ast.expr]:
        """The expressions in a node whose calls are started."""
        if isinstance(node, ast.Await):
            return [node.value]
        if isinstance(node, ast.Call):
            if self._takes(node.func):
                return node.args if self._named(node.func) == "gather" else node.args[:1]
            return node.args if self._puts(node, scope) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_held = node.value is not None and any(self._is_held(target, scope) for target in targets)
            return [node.value] if is_held else []  # type: ignore[list-item]
        if isinstance(node, (ast.For, ast.comprehension)):
            match node.target, node.iter:
                case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=parts):
                    return [part for target, part in zip(targets, parts) if self._is_held(target, scope)]
            return [node.iter] if self._is_held(node.target, scope) else []
        return []

    def _named(self, function: ast.expr) -> str | None:
        match function:
            case ast.Attribute(attr=name) | ast.Name(id=name):
                return name
        return None

    # Then what is written in the place of each call.

    def rewritten(self) -> ast.AST:
        self._scope = self._scopes[self._tree]
        self._can_await = True
        self._started: set[ast.AST] = set()
        return self.generic_visit(self._tree)

    def visit(self, node: ast.AST) -> Any:
        for part in self._started_parts(node, self._scope):
            self._start(part)
        return super().visit(node)

    def _start(self, part: ast.expr) -> None:
        pending: list[ast.AST] = [part]
        while pending:
            node = pending.pop()
            self._started.add(node)
            pending.extend(self._parts(node))

    def _within(self, node: Any) -> Any:
        before = self._scope, self._can_await
        self._scope = self._scopes[node]
        self._can_await = self._scope.is_async
        self.generic_visit(node)
        self._scope, self._can_await = before
        return node

    visit_AsyncFunctionDef = visit_Lambda = _within

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.name in self._handed:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    self._start(inner.value)
        return self._within(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        before, self._can_await = self._can_await, False
        self.generic_visit(node)
        self._can_await = before
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        # With `await` in it, it would be another kind of generator.
        before, self._can_await = self._can_await, False
        self.generic_visit(node)
        self._can_await = before
        return node

    def visit_Await(self, node: ast.Await) -> Any:
        self.generic_visit(node)
        awaited = ast.Call(ast.Name("__awaited__", ast.Load()), [node.value], [])
        return ast.copy_location(ast.Await(ast.copy_location(awaited, node)), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        is_started = node in self._started and isinstance(node.value, ast.Name) and node.value.id == "tools"
        self.generic_visit(node)
        return self._starting(node) if is_started else node

    def visit_Call(self, node: ast.Call) -> Any:
        is_started, is_tool = node in self._started, self._is_tool(node.func)
        self.generic_visit(node)
        if is_started and not self._takes(node.func):
            node.func = self._starting(node.func)
        elif is_tool and not is_started and self._can_await:
            node.func = self._starting(node.func)
            awaited = ast.copy_location(ast.Call(ast.Name("__awaited__", ast.Load()), [node], []), node)
            return ast.copy_location(ast.Await(awaited), node)
        return node

    def _is_tool(self, function: ast.expr) -> bool:
        match function:
            case ast.Attribute(value=ast.Name(id="tools")) | ast.Subscript(value=ast.Name(id="tools")):
                return True
        return isinstance(function, ast.Name) and function.id == "call"

    def _starting(self, function: ast.expr) -> ast.expr:
        name = ast.copy_location(ast.Name("__started__", ast.Load()), function)
        return ast.copy_location(ast.Call(name, [function], []), function)


#: The function whose body a program is, and the body of one without a statement.
_SHELL = ast.parse("async def program():\n    pass", FILE)
_NOTHING = _SHELL.body[0].body  # type: ignore[attr-defined]


def _compiled(source: str) -> types.CodeType:
    tree = ast.parse(source, FILE)
    body = tree.body
    if body and isinstance(body[-1], ast.Expr) and not isinstance(body[-1].value, (ast.Yield, ast.YieldFrom)):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    # Without these words there is no call to find, and looking for one takes longer than all else. Names in other letters
    # may be the same names.
    if not source.isascii() or any(word in source for word in ("await", "tools", "call")):
        ast.fix_missing_locations(_Positions(tree).rewritten())
    function = _SHELL.body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    function.body = body or _NOTHING
    return compile(_SHELL, FILE, "exec")


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


def _is(error: BaseException, kind: type) -> bool:
    """Returns true if an exception is of a class, whatever it says of itself."""
    return issubclass(type(error), kind)


def _said(error: BaseException) -> str:
    """The name and the text of an exception, which may be a program's own."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return "an exception that cannot be read"


def _failure(error: BaseException, source: str, logs: list[str]) -> opcell.Failure:
    """The failure of a program that ended with this error."""
    details: dict[str, Any] = {}
    # A group of one, such as of a `TaskGroup`, is that one. What an exception says of its class is the program's own.
    while _is(error, BaseExceptionGroup) and len(error.exceptions) == 1:  # type: ignore[attr-defined]
        error = error.exceptions[0]  # type: ignore[attr-defined]
    lines = source.split("\n")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    line = frames[-1].lineno if frames else error.__dict__.get("line") if type(error) in (ToolError, ToolDenied) else None
    is_syntax = type(error) in (SyntaxError, IndentationError, TabError)
    if is_syntax and error.filename == FILE:  # type: ignore[attr-defined]
        line = error.lineno  # type: ignore[attr-defined]
    reason, text = "program-failed", _said(error)
    if is_syntax:
        text = f"SyntaxError: {error.msg}"  # type: ignore[attr-defined]
    elif type(error) is ToolDenied:
        reason = "denied"
        details.update(capability=error.capability, rule=error.rule, remedy=error.remedy)
    elif type(error) is ProgramStuck:
        reason, text = "program-stuck", str(error)
    elif _is(error, MemoryError):
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
    if not _is(error, ToolError):
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
    logs: list[str] = []
    log = _Log(logs, sys.stdout)
    sys.stdout = sys.stderr = log  # type: ignore[assignment]
    space = {
        "__name__": "__main__", "__awaited__": _awaited, "__started__": _started, "input": input,
        "tools": _Tools(), "call": _ByName(), "ToolDenied": ToolDenied, "ToolError": ToolError, "asyncio": asyncio,
        "json": json,
    }
    try:
        exec(_compiled(source), space)
        program = space["program"]()
        if inspect.isasyncgen(program):
            raise SyntaxError("`yield` outside of a function")
        result = LOOP.settle(program)
        LOOP.finish()
        result = opcell.to_json(result)
        json.dumps(result, allow_nan=False)
    except BaseException as error:
        log.end()
        raise _failure(error, source, logs) from None
    log.end()
    return {"result": result, "logs": logs}


# Source plugins


#: Room for a source plugin. Where a host makes a component of a source, it writes it over this: the mark, the lengths of
#: the description and of the source in four bytes each, the lowest first, and both. `source/bundle.rs` of the library has
#: the other side.
_ROOM = b"opcell-no-source" * 65_792
_MARK = b"opcell-source-v1"

#: The module of a source.
_MODULE = "opcell_source"

_is_open = False


class _NoPlugin(Exception):
    """The source describes no plugin."""


def _open() -> None:
    """Runs the source of the room, if there is one: what it describes takes the place of `python/run`."""
    global _is_open
    if _is_open or _ROOM[:16] != _MARK:
        return
    described, length = (int.from_bytes(_ROOM[at : at + 4], "little") for at in (16, 20))
    about = json.loads(_ROOM[24 : 24 + described])
    source, file = _ROOM[24 + described : 24 + described + length].decode(), about["file"]
    random.seed(os.urandom(32))
    opcell._OPERATIONS.clear()
    opcell._JUDGES.clear()
    opcell._MISSING = "; a source plugin is one file, and has the modules of the runtime"
    module = types.ModuleType(_MODULE)
    module.__file__ = file
    sys.modules[_MODULE] = module
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    if not opcell._OPERATIONS and not opcell._JUDGES:
        for name, function in list(vars(module).items()):
            if inspect.isfunction(function) and function.__module__ == _MODULE and not name.startswith("_"):
                _describe(f"{about['name']}/{_kebab(name)}", name, function)
    if not opcell._OPERATIONS and not opcell._JUDGES:
        raise _NoPlugin("it has no public function, and describes no operation with `@operation` or `@judge`")
    _is_open = True


def _describe(id: str, name: str, function: Any) -> None:
    """Makes an operation of a public function: its docstring is the summary, and its type hints are the schemas."""
    doc = inspect.getdoc(function) or ""
    if not doc.strip():
        raise _NoPlugin(f"the public function `{name}` has no docstring: write one with a summary, or begin its name with `_`")
    effects = re.search(r"^Effects:[ \t]*(.*?)\.?[ \t]*$", doc, re.MULTILINE)
    summary = doc if effects is None else doc[: effects.start()] + doc[effects.end() :]
    opcell.operation(id, effects=effects[1] if effects else "once", summary=summary)(function)


def _kebab(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-")


def _why(error: BaseException) -> str:
    """Why a source is no plugin, with the place in it."""
    file = json.loads(_ROOM[24 : 24 + int.from_bytes(_ROOM[16:20], "little")])["file"]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line, text = frames[-1].lineno if frames else None, _said(error)
    if isinstance(error, SyntaxError) and error.filename == file:
        line, text = error.lineno, f"{type(error).__name__}: {error.msg}"
    if isinstance(error, _NoPlugin):
        text = str(error)
    if isinstance(error, ModuleNotFoundError):
        text += opcell._MISSING
    place = f", at {file}:{line}: `{linecache.getline(file, line).strip()}`" if line else ""
    return f"{file}: {_cut(text, MAX_MESSAGE)}{place}"


def _opened() -> None:
    """Runs the source; a host that asks what it offers learns why that fails."""
    try:
        _open()
    except BaseException as error:
        opcell._log.panicked(_why(error))
        raise


class _Operations(opcell.Operations):
    def describe(self) -> Any:
        _opened()
        return super().describe()

    def invoke(self, id: str, arguments: str, context: Any) -> Any:
        _opened()
        return super().invoke(id, arguments, context)


class _Judges(opcell.Judges):
    def describe(self) -> Any:
        _opened()
        return super().describe()

    def judge(self, id: str, arguments: str, context: Any) -> Any:
        _opened()
        return super().judge(id, arguments, context)


opcell.Operations, opcell.Judges = _Operations, _Judges  # type: ignore[misc]
