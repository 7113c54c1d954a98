"""The Opcell SDK for Python: operations and judges as functions with type hints, host capabilities as plain calls.

    from opcell import operation, Judges, Operations

    @operation("greet/hello", effects="pure")
    def hello(name: str) -> dict[str, str]:
        "Greets a person by name."
        return {"greeting": f"Hello, {name}!"}

Arguments are what their hints say: data classes, enumerations, dates and the like are made of the JSON values, and
defaults apply. `print` and `logging` write to the log.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
import sys
import traceback
import typing
from dataclasses import dataclass
from typing import Any, Callable, Iterable

try:
    from componentize_py_types import Err
except ModuleNotFoundError:  # Outside of a component there are doubles, for unit tests.
    from .testing import provide as _provide

    _provide()
    from componentize_py_types import Err
from wit_world.exports import judges as _judges
from wit_world.exports import operations as _operations
from wit_world.imports import calls as _calls
from wit_world.imports import files as _files
from wit_world.imports import log as _log
from wit_world.imports import skills as _skills
from wit_world.imports import store as _store
from wit_world.imports import tools as _tools
from wit_world.imports import types as _types

from .schema import Unfit, of_arguments, of_result, to_json, value_of

__all__ = [
    "Context", "Denied", "Failure", "Judges", "Keyword", "Operations", "Success", "Verdict",
    "Ended", "StoreEntry", "files", "judge", "log", "operation", "skills", "store", "tools",
]

Context = _types.Context


class Failure(Exception):
    """A failure that the plugin reports on purpose. `reason` is kebab-case and stable; `details` is any JSON value."""

    def __init__(self, reason: str, message: str, details: Any = None):
        super().__init__(message)
        self.reason, self.message, self.details = reason, message, details


class Denied(Failure):
    """What the host refused: `capability`, `rule`, and the `remedy` that would grant it."""

    def __init__(self, denial: _types.Denial):
        details = {"capability": denial.capability, "rule": denial.rule, "remedy": denial.remedy}
        super().__init__("denied", f"{denial.capability} is denied: {denial.rule}", details)
        self.capability, self.rule, self.remedy = denial.capability, denial.rule, denial.remedy


@dataclass
class Success:
    """A result with a summary for people, or with structured details."""

    data: Any
    summary: str | None = None
    details: Any = None


@dataclass(frozen=True)
class Keyword:
    """A keyword outcome: `Keyword("done")` and `"done"` are different outcomes."""

    name: str


@dataclass
class Verdict:
    """An outcome and why."""

    outcome: str | Keyword
    rationale: str | None = None


@dataclass
class _Function:
    id: str
    summary: str
    arguments: dict[str, Any]
    run: Callable[..., Any]
    data: dict[str, Any] | None = None
    effects: str = "once"
    outcomes: tuple[str | Keyword, ...] = ()
    #: The author wrote the schema of the arguments: the function gets them as JSON has them.
    given: bool = False

    def __post_init__(self) -> None:
        # Here and not in a call: this is part of the memory that cells begin with.
        self.takes_context = "context" in inspect.signature(self.run).parameters

    def call(self, arguments: str, context: Context) -> Any:
        given = json.loads(arguments)
        if not self.given:
            hints = typing.get_type_hints(self.run, include_extras=True)
            try:
                given = {name: value_of(hints.get(name, Any), value, f"/{name}") for name, value in given.items()}
            except Unfit as error:
                raise Failure("invalid-arguments", str(error)) from None
        if self.takes_context:
            given["context"] = context
        result = self.run(**given)
        if inspect.iscoroutine(result):
            return _awaited(result, self.id)
        return result


def _awaited(coroutine: Any, id: str) -> Any:
    """Runs a coroutine to its end. There is nothing in a cell that it could wait for but itself."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    finally:
        coroutine.close()
    raise Failure("never-settles", f"`{id}` waits for an event loop, which a cell does not have: `asyncio.sleep` and the "
                                   "like cannot end; write it without `async`")


_OPERATIONS: dict[str, _Function] = {}
_JUDGES: dict[str, _Function] = {}


def _summary(run: Callable[..., Any], summary: str | None) -> str:
    first = (summary or inspect.getdoc(run) or "").strip().split("\n\n")[0]
    return " ".join(first.split())


def _schema(given: dict[str, Any] | None, of_hints: Callable[[], dict[str, Any]], id: str) -> dict[str, Any]:
    """The schema that the author gave, or that of the hints; whose it is, where a hint has none."""
    if given is not None:
        return given
    try:
        return of_hints()
    except (TypeError, NameError) as error:
        raise TypeError(f"{id}: {error}") from None


def operation(id: str, *, effects: str = "once", summary: str | None = None,
              arguments: dict[str, Any] | None = None, data: dict[str, Any] | None = None):
    """Makes an operation of a function. Schemas come from its type hints, or are given; the summary is its docstring.

    `effects` is "pure", "idempotent" or "once" (what may happen when the same call is made twice).
    """
    known = ("pure", "idempotent", "once")
    if effects not in known:
        near = difflib.get_close_matches(str(effects), known, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise ValueError(f'operation {id!r}: effects={effects!r}: expected "pure", "idempotent" or "once"{hint}')

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        _OPERATIONS[id] = _Function(id, _summary(run, summary), _schema(arguments, lambda: of_arguments(run), id), run,
                                    _schema(data, lambda: of_result(run), id), effects, given=arguments is not None)
        return run

    return register


def judge(id: str, *, outcomes: Iterable[str | Keyword] = (), summary: str | None = None,
          arguments: dict[str, Any] | None = None):
    """Makes a judge of a function that returns one of `outcomes`, or a `Verdict`."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        _JUDGES[id] = _Function(id, _summary(run, summary), _schema(arguments, lambda: of_arguments(run), id), run,
                                outcomes=tuple(outcomes), given=arguments is not None)
        return run

    return register


#: Folders of the component with the names that they have where the plugin is built.
_PLACES: dict[str, str] = {}
_SDK = os.path.dirname(__file__)


def _name(file: str) -> str:
    for mounted, name in _PLACES.items():
        if file.startswith(mounted):
            return name + file[len(mounted):]
    return file


def _traceback(error: BaseException) -> tuple[str, str]:
    """An error's traceback with the names of the plugin's own files, without the SDK's first frames; and its place."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_SDK):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    for mounted, name in _PLACES.items():
        text = text.replace(f'File "{mounted}', f'File "{name}')
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(_SDK)]
    # Of the plugin's own files rather than of a library's.
    own = [frame for frame in frames if _name(frame.filename).startswith("src/")] or frames
    return text, f" ({_name(own[-1].filename)}:{own[-1].lineno})" if own else ""


#: The hint for a module that is not there.
_MISSING = ("; a component has the modules that were imported when it was built: write `import {name}` at the top of a file "
            "that the plugin imports")


def _reported(error: BaseException) -> Err[_types.Failure]:
    if isinstance(error, Failure):
        details = None if error.details is None else json.dumps(to_json(error.details))
        return Err(_types.Failure(error.reason, error.message, details))
    text, place = _traceback(error)
    message = f"{type(error).__name__}: {error}{place}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        message += _MISSING.format(name=error.name)
    _log.panicked(text)
    return Err(_types.Failure("exception", message, None))


class _LogStream:
    """What `print` writes to: each line is a line of the log."""

    encoding, errors, newlines = "utf-8", "replace", None

    def __init__(self, level: str):
        self._level, self._rest = level, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            _log.log(_log.Level[self._level], line)
        return len(text)

    def flush(self) -> None:
        pass

    def end(self) -> None:
        if self._rest:
            self.write("\n")

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class _Output:
    """Within it, what is printed is logged."""

    def __enter__(self) -> None:
        self._before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self._streams = _LogStream("INFO"), _LogStream("WARN")

    def __exit__(self, *_: Any) -> None:
        for stream in self._streams:
            stream.end()
        sys.stdout, sys.stderr = self._before


def _found(functions: dict[str, _Function], id: str) -> _Function:
    if id not in functions:
        raise Failure("unknown-id", f"this plugin has no {id}")
    return functions[id]


class Operations:
    """What the component exports; not for plugins to use."""

    def describe(self):
        return [
            _operations.OperationDescription(one.id, one.summary, json.dumps(one.arguments), json.dumps(one.data),
                                             _types.Effects[one.effects.upper()])
            for one in _OPERATIONS.values()
        ]

    def invoke(self, id: str, arguments: str, context: Context):
        try:
            with _Output():
                result = _found(_OPERATIONS, id).call(arguments, context)
            success = result if isinstance(result, Success) else Success(result)
            details = None if success.details is None else json.dumps(to_json(success.details))
            return _operations.Success(json.dumps(to_json(success.data)), success.summary, details)
        except (Exception, SystemExit) as error:
            raise _reported(error) from None


def _outcome(outcome: str | Keyword):
    if isinstance(outcome, Keyword):
        return _judges.Outcome_Keyword(outcome.name)
    return _judges.Outcome_Text(outcome)


class Judges:
    """What the component exports; not for plugins to use."""

    def describe(self):
        return [
            _judges.JudgeDescription(one.id, one.summary, json.dumps(one.arguments), [_outcome(o) for o in one.outcomes])
            for one in _JUDGES.values()
        ]

    def judge(self, id: str, arguments: str, context: Context):
        try:
            with _Output():
                decided = _found(_JUDGES, id).call(arguments, context)
            verdict = decided if isinstance(decided, Verdict) else Verdict(decided)
            return _judges.Verdict(_outcome(verdict.outcome), verdict.rationale)
        except (Exception, SystemExit) as error:
            raise _reported(error) from None


def _asked(call: Callable[[], Any], path: str = "") -> Any:
    """Turns the errors of the host into `Denied` and `Failure`."""
    try:
        return call()
    except Err as error:
        is_bare = isinstance(error.value, _types.Failure)
        value = error.value if is_bare else getattr(error.value, "value", None)
        if isinstance(value, _types.Denial):
            raise Denied(value) from None
        if isinstance(value, _types.Failure):
            details = None if value.details is None else json.loads(value.details)
            raise Failure(value.reason, value.message, details) from None
        kind = type(error.value).__name__.removeprefix("FileError_")
        what = "".join(f"-{c.lower()}" if c.isupper() else c for c in kind).strip("-")
        reason = what if what.startswith("not-a-") else f"file-{what}"
        raise Failure(reason, f"{path}: {what if value is None else value}") from None


@dataclass(frozen=True)
class Ended:
    """A call that was started and has ended: its number, and the host's answer."""

    call: int
    answer: Any

    def result(self) -> Any:
        "The result; raises `Denied` or `Failure` if there is none."
        if isinstance(self.answer, Err):
            return _asked(lambda: _raise(self.answer))
        return json.loads(self.answer.value)


def _raise(error: BaseException) -> Any:
    raise error


class tools:
    """Tools of the host. Only what is granted is listed.

    Several calls may be in progress at once, up to the limit `concurrent-calls` of the cell: `call_all` makes as many as
    it is given, and `start` one, for `wait_any`. A cell ends after its calls.
    """

    @staticmethod
    def list() -> list[dict[str, Any]]:
        return [{"name": t.name, "summary": t.summary, "arguments": json.loads(t.arguments_schema)} for t in _tools.list()]

    @staticmethod
    def _written(arguments: dict[str, Any]) -> str:
        "The text of arguments, for `_call_text` and `_start_text`."
        return json.dumps(to_json(arguments))

    @staticmethod
    def call(name: str, /, **arguments: Any) -> Any:
        return tools._call_text(name, tools._written(arguments))

    @staticmethod
    def _call_text(name: str, arguments: str) -> Any:
        "Calls with arguments that are JSON already."
        return json.loads(_asked(lambda: _tools.call(name, arguments)))

    @staticmethod
    def start(name: str, /, **arguments: Any) -> int:
        "Starts a call, and gives its number. Raises `Denied` if it is not made."
        return tools._start_text(name, tools._written(arguments))

    @staticmethod
    def _start_text(name: str, arguments: str) -> int:
        "Starts a call with arguments that are JSON already."
        return _asked(lambda: _calls.start(name, arguments))

    @staticmethod
    def start_timer(milliseconds: int) -> int:
        "Starts a timer, which ends like a call with the result None. In a run it is durable."
        return _asked(lambda: _calls.sleep(milliseconds))

    @staticmethod
    def wait_any(calls: Iterable[int]) -> Ended:
        "Waits until one of these calls has ended: of several, the one that ended first."
        numbers = [*calls]
        ended = _asked(lambda: _calls.wait_any(numbers))
        return Ended(ended.call, ended.answer)

    @staticmethod
    def call_all(*calls: tuple[str, dict[str, Any]]) -> Any:
        """Makes several calls at once: `call_all(("read", {"path": "a"}), ("read", {"path": "b"}))`.

        Gives their results in the order of the calls. The first failure of them is raised when all have ended.
        """
        started: list[Any] = []
        for name, arguments in calls:
            try:
                started.append(tools.start(name, **arguments))
            except Failure as refused:
                started.append(refused)
        ended = [one if isinstance(one, Failure) else tools.wait_any([one]) for one in started]
        return [_raise(one) if isinstance(one, Failure) else one.result() for one in ended]


class skills:
    """Skills in the Agent Skills format. Only what is granted is listed."""

    @staticmethod
    def list() -> list[dict[str, str]]:
        return [{"name": s.name, "description": s.description} for s in _skills.list()]

    @staticmethod
    def read(name: str) -> str:
        return _asked(lambda: _skills.read(name))

    @staticmethod
    def read_resource(name: str, path: str) -> bytes:
        return _asked(lambda: _skills.read_resource(name, path))


#: Bytes that one call to the host reads or writes.
_CHUNK = 1 << 16


class files:
    """Files below granted roots: `files.read("workspace", "src/main.rs")`. Paths are relative and never leave their root."""

    @staticmethod
    def roots() -> list[dict[str, Any]]:
        return [{"name": r.name, "writable": r.writable} for r in _files.roots()]

    @staticmethod
    def entries(root: str, path: str = "") -> list[dict[str, Any]]:
        directory = _asked(lambda: _files.open_root(root), root)
        if path:
            parent = directory
            directory = _asked(lambda: parent.open_directory(path), f"{root}/{path}")
        return [{"name": e.name, "kind": e.kind.name.lower(), "size": e.size} for e in _asked(directory.entries, f"{root}/{path}")]

    @staticmethod
    def walk(root: str, path: str = "", *, skip: Iterable[str] = (), most: int = 10_000) -> list[str]:
        "Every file below a directory, as paths from the root, sorted; `skip` names directories that are left out."
        found: list[str] = []
        pending = [path]
        while pending:
            directory = pending.pop()
            for entry in files.entries(root, directory):
                inner = f"{directory}/{entry['name']}" if directory else entry["name"]
                if entry["kind"] == "directory" and entry["name"] not in skip:
                    pending.append(inner)
                elif entry["kind"] == "file":
                    found.append(inner)
                if len(found) + len(pending) > most:
                    raise Failure("too-many-files", f"{root}/{path} has more than {most} files")
        return sorted(found)

    @staticmethod
    def read(root: str, path: str) -> bytes:
        directory = _asked(lambda: _files.open_root(root), root)
        file = _asked(lambda: directory.open(path), f"{root}/{path}")
        parts: list[bytes] = []
        offset = 0
        while part := _asked(lambda: file.read(offset, _CHUNK), f"{root}/{path}"):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    @staticmethod
    def read_text(root: str, path: str) -> str:
        return files.read(root, path).decode()

    @staticmethod
    def write(root: str, path: str, content: bytes | str) -> None:
        data = content.encode() if isinstance(content, str) else content
        directory = _asked(lambda: _files.open_root(root), root)
        file = _asked(lambda: directory.create(path), f"{root}/{path}")
        for start in range(0, len(data), _CHUNK):
            _asked(lambda: file.write(data[start:start + _CHUNK]), f"{root}/{path}")

    @staticmethod
    def remove(root: str, path: str) -> None:
        directory = _asked(lambda: _files.open_root(root), root)
        _asked(lambda: directory.remove(path), f"{root}/{path}")


@dataclass(frozen=True)
class StoreEntry:
    """The value of a key. `version` grows with every write of the store."""

    value: bytes
    version: int


def _entry(entry: Any) -> StoreEntry | None:
    return None if entry is None else StoreEntry(bytes(entry.value), entry.version)


def _kept(call: Callable[[], Any]) -> Any:
    """Turns the errors of a store into `Denied` and `Failure`."""
    try:
        return call()
    except Err as error:
        if isinstance(error.value, _store.StoreError_Denied):
            raise Denied(error.value.value) from None
        kind = type(error.value).__name__.removeprefix("StoreError_").lower()
        raise Failure(f"store-{kind}", error.value.value) from None


class store:
    """What the plugin keeps from one call to the next, in stores that are granted by name. Texts are encoded."""

    @staticmethod
    def get(name: str, key: str) -> StoreEntry | None:
        return _entry(_kept(lambda: _store.get(name, key)))

    @staticmethod
    def set(name: str, key: str, value: bytes | str) -> int:
        "Writes a value, whatever there was, and gives its version."
        data = value.encode() if isinstance(value, str) else value
        return _kept(lambda: _store.set(name, key, data))

    @staticmethod
    def compare_and_set(name: str, key: str, expected: int | None, value: bytes | str) -> tuple[bool, StoreEntry | None]:
        """Writes a value if the key is at version `expected`; None expects that it has no entry.

        Gives whether it was written, and the entry that is there now.
        """
        data = value.encode() if isinstance(value, str) else value
        swap = _kept(lambda: _store.compare_and_set(name, key, expected, data))
        if isinstance(swap, _store.Swap_Stored):
            return True, StoreEntry(data, swap.value)
        return False, _entry(swap.value)

    @staticmethod
    def update(name: str, key: str, change: Callable[[bytes | None], bytes | str]) -> bytes:
        "Makes a new value of the one that is there, again if another call wrote in between. Gives what was written."
        seen = store.get(name, key)
        for _ in range(100):
            value = change(None if seen is None else seen.value)
            written, seen = store.compare_and_set(name, key, None if seen is None else seen.version, value)
            if written:
                return seen.value
        raise Failure("store-failed", f"others wrote `{key}` 100 times in between")

    @staticmethod
    def list(name: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> tuple[Any, bool]:
        "Keys in the order of their bytes, and whether there are more after the last one."
        page = _kept(lambda: _store.list(name, prefix, after, limit))
        return page.keys, page.more

    @staticmethod
    def delete(name: str, key: str) -> bool:
        "Removes a key, and says whether it had an entry."
        return _kept(lambda: _store.delete(name, key))


class log:
    """Messages for the operator. They reach the receipt, never a model."""

    @staticmethod
    def _at(level: str, message: str) -> None:
        _log.log(_log.Level[level], str(message))

    @staticmethod
    def debug(message: str) -> None:
        log._at("DEBUG", message)

    @staticmethod
    def info(message: str) -> None:
        log._at("INFO", message)

    @staticmethod
    def warn(message: str) -> None:
        log._at("WARN", message)

    @staticmethod
    def error(message: str) -> None:
        log._at("ERROR", message)

    @staticmethod
    def progress(done: int, total: int = 0, message: str = "") -> None:
        """`total` is 0 when it is not known."""
        _log.progress(done, total, message)
