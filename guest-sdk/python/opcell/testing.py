"""Unit tests of a plugin in the Python of this machine, with doubles of what a host serves.

    import unittest
    import plugin
    from opcell.testing import Host, invoke

    class Counts(unittest.TestCase):
        def test_words(self):
            with Host(files={"texts": {"a.md": "one two"}}):
                self.assertEqual(invoke("words/count", extension=".md"), {"files": 1, "words": 2})

Run them in the plugin's folder: `PYTHONPATH=sdk:src python3 -m unittest discover tests`. What a test gives no double of
is denied, as by an operator who granted nothing. `opcell plugin test` runs cases in real cells, with the real limits.
"""

from __future__ import annotations

import enum
import json
import sys
import types as _python
from dataclasses import dataclass
from typing import Any, Callable


class Err(Exception):
    """An error of the host: `value` is what the interface says."""

    def __init__(self, value: Any):
        super().__init__(value)
        self.value = value


@dataclass
class Denial:
    capability: str
    rule: str
    remedy: str | None = None


@dataclass
class Failed:
    reason: str
    message: str
    details: str | None = None


@dataclass
class Context:
    run: str = ""
    step: str = ""
    visit: int | None = None
    attempt: int | None = None
    idempotency_key: str = ""


class Effects(enum.Enum):
    PURE = 0
    IDEMPOTENT = 1
    ONCE = 2


class Level(enum.Enum):
    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


class EntryKind(enum.Enum):
    FILE = 0
    DIRECTORY = 1


def _record(name: str, *fields: str) -> type:
    """A record or a variant's case of the contract, by position."""

    def init(self: Any, *values: Any) -> None:
        for field, value in zip(fields, values):
            setattr(self, field, value)

    return type(name, (), {"__init__": init, "value": None})


_DENIED = _record("Error_Denied", "value")
_FAILED = _record("Error_Failed", "value")
_NOT_FOUND = _record("FileError_NotFound")
_NOT_A_FILE = _record("FileError_NotAFile")
_STORE_DENIED = _record("StoreError_Denied", "value")
_ENTRY = _record("Entry", "value", "version")
_ENDED = _record("Ended", "call", "answer")
_ANSWERED = _record("Ok", "value")
_STORED = _record("Swap_Stored", "value")
_CONFLICT = _record("Swap_Conflict", "value")

Tool = Callable[..., Any]


class Host:
    """What a host serves within a `with` block: tools as functions, skills and files as texts, stores as values by key.

    `log` has the lines that were logged, `files` and `stores` what is there afterwards.
    """

    current: Host | None = None

    def __init__(self, *, tools: dict[str, Tool] | None = None, skills: dict[str, str] | None = None,
                 files: dict[str, dict[str, str | bytes]] | None = None,
                 stores: dict[str, dict[str, str | bytes]] | None = None):
        def data(text: str | bytes) -> bytes:
            return text.encode() if isinstance(text, str) else text

        self.tools, self.skills = dict(tools or {}), dict(skills or {})
        self.files = {root: {path: data(text) for path, text in tree.items()} for root, tree in (files or {}).items()}
        self._versions = 0
        self._stores = {name: {key: (data(text), 0) for key, text in entries.items()}
                        for name, entries in (stores or {}).items()}
        self.log: list[str] = []
        #: The answers of calls that were started, until they are given.
        self.started: dict[int, Any] = {}

    @property
    def stores(self) -> dict[str, dict[str, bytes]]:
        """The values of each store."""
        return {name: {key: value for key, (value, _) in entries.items()} for name, entries in self._stores.items()}

    def __enter__(self) -> Host:
        self._before, Host.current = Host.current, self
        return self

    def __exit__(self, *_: Any) -> None:
        Host.current = self._before


def _host() -> Host:
    return Host.current or Host()


def _of(kind: str, given: dict[str, Any], name: str, denied: type = _DENIED) -> Any:
    if name not in given:
        raise Err(denied(Denial(f"{kind} {name}", f"the test gives no double of {kind} `{name}`")))
    return given[name]


class _File:
    def __init__(self, tree: dict[str, bytes], path: str):
        self._tree, self._path = tree, path

    def read(self, offset: int, length: int) -> bytes:
        return self._tree[self._path][offset:offset + length]

    def write(self, data: bytes) -> None:
        self._tree[self._path] += data


class _Directory:
    def __init__(self, tree: dict[str, bytes], prefix: str = ""):
        self._tree, self._prefix = tree, prefix

    def entries(self) -> list[Any]:
        found: dict[str, Any] = {}
        for path, data in self._tree.items():
            if path.startswith(self._prefix):
                name, *inner = path[len(self._prefix):].split("/", 1)
                kind, size = (EntryKind.DIRECTORY, 0) if inner else (EntryKind.FILE, len(data))
                found[name] = _record("Entry", "name", "kind", "size")(name, kind, size)
        return [found[name] for name in sorted(found)]

    def open_directory(self, path: str) -> _Directory:
        prefix = f"{self._prefix}{path}/"
        if not any(known.startswith(prefix) for known in self._tree):
            raise Err(_NOT_FOUND())
        return _Directory(self._tree, prefix)

    def open(self, path: str) -> _File:
        whole = self._prefix + path
        if whole not in self._tree:
            is_directory = any(known.startswith(f"{whole}/") for known in self._tree)
            raise Err(_NOT_A_FILE() if is_directory else _NOT_FOUND())
        return _File(self._tree, whole)

    def create(self, path: str) -> _File:
        self._tree[self._prefix + path] = b""
        return _File(self._tree, self._prefix + path)

    def remove(self, path: str) -> None:
        if self._tree.pop(self._prefix + path, None) is None:
            raise Err(_NOT_FOUND())


def _call_tool(name: str, arguments: str) -> str:
    tool = _of("tool", _host().tools, name)
    # A tool double fails as a tool does: with `Failure`.
    from . import Failure
    try:
        return json.dumps(tool(**json.loads(arguments)))
    except Failure as failure:
        details = None if failure.details is None else json.dumps(failure.details)
        raise Err(_FAILED(Failed(failure.reason, failure.message, details))) from None


def _start(name: str, arguments: str) -> int:
    # A double answers at once: calls end in the order in which they were started.
    try:
        answer: Any = _ANSWERED(_call_tool(name, arguments))
    except Err as error:
        if isinstance(error.value, _DENIED):
            raise
        answer = error
    return _begun(answer)


def _begun(answer: Any) -> int:
    host = _host()
    host.started[(number := len(host.started))] = answer
    return number


def _wait_any(calls: list[int]) -> Any:
    started = _host().started
    if not calls or any(started.get(call) is None for call in calls):
        reason, message = ("unknown-call", "one of the calls was not started, or its end was given")
        raise Err(Failed(reason, message))
    first = min(calls)
    answer, started[first] = started[first], None
    return _ENDED(first, answer)


def _entries(name: str) -> dict[str, tuple[bytes, int]]:
    return _of("store", _host()._stores, name, _STORE_DENIED)


def _get(name: str, key: str) -> Any:
    found = _entries(name).get(key)
    return None if found is None else _ENTRY(*found)


def _set(name: str, key: str, value: bytes) -> int:
    host, entries = _host(), _entries(name)
    host._versions += 1
    entries[key] = (value, host._versions)
    return host._versions


def _compare_and_set(name: str, key: str, expected: int | None, value: bytes) -> Any:
    found = _get(name, key)
    if (None if found is None else found.version) != expected:
        return _CONFLICT(found)
    return _STORED(_set(name, key, value))


def _list(name: str, prefix: str, after: str | None, limit: int) -> Any:
    keys = sorted(key for key in _entries(name) if key.startswith(prefix) and (after is None or key > after))
    return _record("Page", "keys", "more")(keys[:limit], len(keys) > limit)


def _add(text: str) -> None:
    _host().log.append(text)


def provide() -> None:
    """Puts doubles in the place of the modules that a component has."""
    described = {"operations": {"Success": _record("Success", "data", "summary", "details"),
                                "OperationDescription": _record("OperationDescription", "id", "summary", "arguments_schema",
                                                                "data_schema", "effects")},
                 "judges": {"Verdict": _record("Verdict", "outcome", "rationale"),
                            "JudgeDescription": _record("JudgeDescription", "id", "summary", "arguments_schema", "outcomes"),
                            "Outcome_Text": _record("Outcome_Text", "value"),
                            "Outcome_Keyword": _record("Outcome_Keyword", "value")}}
    named = _record("Named", "name", "description", "summary", "arguments_schema", "writable")
    served = {
        "types": {"Context": Context, "Denial": Denial, "Failure": Failed, "Effects": Effects},
        "tools": {"list": lambda: [named(name, "", "", "{}", False) for name in _host().tools], "call": _call_tool},
        "calls": {"start": _start, "wait_any": _wait_any, "sleep": lambda _: _begun(_ANSWERED("null"))},
        "skills": {"list": lambda: [named(name, "", "", "{}", False) for name in _host().skills],
                   "read": lambda name: _of("skill", _host().skills, name),
                   "read_resource": lambda name, path: _of("skill", _host().skills, f"{name}/{path}").encode()},
        "files": {"roots": lambda: [named(name, "", "", "{}", True) for name in _host().files],
                  "open_root": lambda name: _Directory(_of("files", _host().files, name))},
        "store": {"get": _get, "set": _set, "compare_and_set": _compare_and_set, "list": _list,
                  "delete": lambda name, key: _entries(name).pop(key, None) is not None,
                  "StoreError_Denied": _STORE_DENIED, "Swap_Stored": _STORED, "Swap_Conflict": _CONFLICT},
        "log": {"Level": Level, "log": lambda level, text: _add(text), "panicked": _add,
                "progress": lambda done, total, message: _add(message)},
    }
    modules = {"componentize_py_types": {"Err": Err}, "wit_world": {}, "wit_world.exports": {}, "wit_world.imports": {}}
    modules.update({f"wit_world.exports.{name}": members for name, members in described.items()})
    modules.update({f"wit_world.imports.{name}": members for name, members in served.items()})
    for name, members in modules.items():
        module = _python.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)


def invoke(id: str, /, **arguments: Any) -> Any:
    """Calls an operation as a host does: arguments and data are JSON values. Raises `Failure`."""
    from . import _OPERATIONS, Success, _found, to_json
    result = _found(_OPERATIONS, id).call(json.dumps(to_json(arguments)), Context())
    return to_json(result.data if isinstance(result, Success) else result)


def decide(id: str, /, **arguments: Any) -> Any:
    """Asks a judge as a host does, and gives its `Verdict`."""
    from . import _JUDGES, Verdict, _found, to_json
    decided = _found(_JUDGES, id).call(json.dumps(to_json(arguments)), Context())
    return decided if isinstance(decided, Verdict) else Verdict(decided)
