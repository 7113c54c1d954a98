"""The host."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path as _Path
from types import TracebackType
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _native
from ._errors import CallError, Denial, call_error
from ._models import Model, PythonModel, submitted
from ._plugins import Limits, Path, Plugin, Tenant
from ._receipts import Receipt
from ._runs import Outcome, Run, Workflow
from ._tools import Tool
from ._waiting import awaited

__all__ = ["Host", "Reply", "Requests", "project_requests"]

_COMPILER = _Path(__file__).parent / "opcell-compile"

_OPEN: "weakref.WeakSet[Host]" = weakref.WeakSet()


class Reply:
    """The end of a call as a value: its result or its failure, each with the receipt."""

    __slots__ = ("_native", "_error")

    def __init__(self, native: Any) -> None:
        self._native = native
        self._error: Optional[CallError] = None

    @property
    def ok(self) -> bool:
        """``True`` if the call has a result."""
        return self._native.is_ok()

    @property
    def data(self) -> Any:
        """The result; ``None`` of a failure."""
        return self._native.data()

    @property
    def summary(self) -> Optional[str]:
        """The result in a sentence, for people."""
        return self._native.summary()

    @property
    def details(self) -> Any:
        """More about the result, for debugging."""
        return self._native.details()

    @property
    def receipt(self) -> Optional[Receipt]:
        """The receipt: what the call used and touched; ``None`` if nothing ran."""
        raw = self._native.receipt()
        return Receipt(raw) if raw is not None else None

    @property
    def error(self) -> Optional[CallError]:
        """The failure, which :meth:`Host.call` would raise."""
        if self._error is None and not self._native.is_ok():
            self._error = call_error(self._native.failure(), self.receipt)
        return self._error

    @property
    def denial(self) -> Optional[Denial]:
        """The refusal, if the call failed because it was refused something."""
        return self.error.denial if self.error is not None else None

    def result(self) -> Any:
        """Returns the result, or raises the failure."""
        if self._native.is_ok():
            return self._native.data()
        raise self.error or RuntimeError("a call without a result and without a failure")

    def __repr__(self) -> str:
        return f"Reply(data={self.data!r})" if self.ok else f"Reply(error={self.error!r})"


@dataclass(frozen=True)
class Requests:
    """What a project file asks for beyond its own folder."""

    digest: str
    """Changes whenever the requests do: what a user consents to."""
    requests: "list[str]"
    """A line each."""


def project_requests(project: Path) -> Requests:
    """Reads what a project file asks for beyond its own folder: programs, hosts, other folders, variables.

    A host takes the project of this program as it is. Show these to the user of a project that comes from elsewhere.
    """
    return Requests(**_native.requests(project))


def _pieces(text: Union[bool, str]) -> int:
    if text == "all":
        return 2
    if isinstance(text, bool):
        return int(text)
    raise ValueError(f'text: expected True, False or "all", but found {text!r}')


class Host:
    """Plugins with their grants, workflows, tools of this program, and the engine that runs them.

    A host is built at its first use, or by :meth:`open`; until then :meth:`tool` adds tools. Every method that waits
    has a twin for event loops with an ``a`` before its name: :meth:`acall` of :meth:`call`.

    A host has no plugins and grants nothing by default; ``project`` takes both from a project file. ``journal`` keeps
    runs in an SQLite file. ``trusted_in_process=True`` compiles plugins in this process instead of a child: only for
    plugins that are trusted as this program is. ``model`` is a function that answers whatever model a session names,
    ``providers`` are functions by the names of their providers: ``mine`` answers for ``mine/large``.
    """

    def __init__(
        self,
        project: Optional[Path] = None,
        *,
        plugins: Sequence[Plugin] = (),
        tools: Sequence[Union[Tool, Callable[..., Any]]] = (),
        model: Optional[Model] = None,
        providers: Optional[Mapping[str, Model]] = None,
        workflows: Sequence[Path] = (),
        skills: Sequence[Path] = (),
        limits: Optional[Limits] = None,
        cells: Optional[int] = None,
        journal: Optional[Path] = None,
        lock: Optional[Path] = None,
        cache: Optional[Path] = None,
        leave_out_new_permissions: bool = False,
        trusted_in_process: bool = False,
    ) -> None:
        def path(given: Optional[Path]) -> Optional[str]:
            return None if given is None else os.fspath(given)

        self._settings: "dict[str, Any]" = {
            "project": path(project),
            "plugins": [plugin._data() for plugin in plugins],
            "workflows": [path(folder) for folder in workflows],
            "skills": [path(folder) for folder in skills],
            "limits": dict(limits or {}),
            "cells": cells,
            "journal": path(journal),
            "lock": path(lock),
            "cache": path(cache),
            "leave_out": leave_out_new_permissions,
            "compiler": str(_COMPILER) if os.access(_COMPILER, os.X_OK) else None,
            "trusted": trusted_in_process,
        }
        self._components = {plugin.name: plugin.component for plugin in plugins if isinstance(plugin.component, bytes)}
        self._models = (None if model is None else PythonModel(model).submit, submitted(providers or {}))
        self._tools = [tool if isinstance(tool, Tool) else Tool(tool) for tool in tools]
        self._lock = threading.Lock()
        self._built: Any = None
        self._is_closed = False

    # Building.

    def tool(self, function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
        """Offers a Python function as a tool: ``@host.tool`` or ``@host.tool(name="shop.price")``.

        Options are those of :class:`Tool`. Only before the host is built.
        """
        if function is None:
            return lambda function: self.tool(function, **options)
        if self._built is not None:
            raise RuntimeError("this host is built already: add its tools before its first use")
        made = Tool(function, **options)
        self._tools.append(made)
        return made

    def _opening(self) -> Any:
        tools = [
            (tool.name, tool.description, tool.schema, tool.effects, tool.plugins, tool.documents, tool._submit)
            for tool in self._tools
        ]
        return _native.open_host(self._settings, self._components, tools, *self._models)

    def _take(self, built: Any) -> Any:
        self._built = built
        _OPEN.add(self)
        return built

    def open(self) -> "Host":
        """Loads the plugins and reads the workflows, unless that has happened; returns the host."""
        self._native()
        return self

    async def aopen(self) -> "Host":
        """As :meth:`open`."""
        await self._anative()
        return self

    def _native(self) -> Any:
        if self._built is not None:
            return self._built
        with self._lock:
            return self._built if self._built is not None else self._take(self._opening().wait())

    async def _anative(self) -> Any:
        if self._built is not None:
            return self._built
        built = await awaited(self._opening())
        # Two tasks may have built it at once: the first counts.
        return self._built if self._built is not None else self._take(built)

    # Calls.

    def call(
        self,
        operation: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Any:
        """Calls an operation and returns its data. ``timeout`` is in seconds. Raises :class:`CallError`."""
        reply = self.invoke(
            operation, arguments, timeout=timeout, user=user, tenant=tenant, idempotency_key=idempotency_key
        )
        return reply.result()

    async def acall(
        self,
        operation: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Any:
        """As :meth:`call`. Cancelling the task stops the cell."""
        reply = await self.ainvoke(
            operation, arguments, timeout=timeout, user=user, tenant=tenant, idempotency_key=idempotency_key
        )
        return reply.result()

    def invoke(
        self,
        operation: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Reply:
        """As :meth:`call`, with the failure as a value: the reply has result or failure, denial and receipt."""
        arguments = {} if arguments is None else arguments
        return Reply(self._native().invoke(operation, arguments, timeout, user, tenant, idempotency_key).wait())

    async def ainvoke(
        self,
        operation: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Reply:
        """As :meth:`invoke`. Cancelling the task stops the cell."""
        native, arguments = await self._anative(), {} if arguments is None else arguments
        return Reply(await awaited(native.invoke(operation, arguments, timeout, user, tenant, idempotency_key)))

    def operations(self) -> "list[dict[str, Any]]":
        """Every operation and judge of the plugins, with its schemas and effects."""
        return self._native().operations()

    def left_out(self) -> "dict[str, str]":
        """The plugins that were left out because they ask for more than was agreed, each with why."""
        return dict(self._native().left_out())

    # Runs.

    def workflow(self, workflow: Union[str, Path, Workflow]) -> Workflow:
        """A workflow by the path of its document, or by its name in the project."""
        if isinstance(workflow, Workflow):
            return workflow
        return Workflow(self._native().workflow(os.fspath(workflow)))

    def check(self, workflow: Union[str, Path, Workflow]) -> "list[dict[str, Any]]":
        """Checks the names that a workflow uses against what this host has."""
        return self._native().check(self.workflow(workflow)._native)

    def _starting(self, workflow: Any, input: Any, *options: Any) -> Any:
        return self._native().start(self.workflow(workflow)._native, input, *options)

    def start(
        self,
        workflow: Union[str, Path, Workflow],
        input: Any = None,
        *,
        detach: bool = False,
        text: Union[bool, str] = False,
        id: Optional[str] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
    ) -> Run:
        """Starts a run, which continues in the background; ``detach`` releases it when it is suspended.

        With ``text`` models are asked to answer in pieces, and the run's events have each as a :class:`Text` or a
        :class:`CallPiece`; with ``text="all"`` those of their reasoning as well, as :class:`Reasoning`.
        """
        return Run(self._starting(workflow, input, detach, _pieces(text), id, user, tenant).wait())

    async def astart(
        self,
        workflow: Union[str, Path, Workflow],
        input: Any = None,
        *,
        detach: bool = False,
        text: Union[bool, str] = False,
        id: Optional[str] = None,
        user: Optional[str] = None,
        tenant: Optional[str] = None,
    ) -> Run:
        """As :meth:`start`."""
        await self._anative()
        return Run(await awaited(self._starting(workflow, input, detach, _pieces(text), id, user, tenant)))

    def run(self, workflow: Union[str, Path, Workflow], input: Any = None, **options: Any) -> Outcome:
        """Runs a workflow until it has ended or waits for answers; options are those of :meth:`start`."""
        return self.start(workflow, input, **{"detach": True, **options}).outcome()

    async def arun(self, workflow: Union[str, Path, Workflow], input: Any = None, **options: Any) -> Outcome:
        """As :meth:`run`. Cancelling the task ends the waiting; the run continues."""
        run = await self.astart(workflow, input, **{"detach": True, **options})
        return await run.aoutcome()

    def resume(self, run: str, *, detach: bool = True, text: Union[bool, str] = False) -> Run:
        """Drives a run of the journal that has no driver; ``text`` as in :meth:`start`."""
        return Run(self._native().resume(run, detach, _pieces(text)).wait())

    async def aresume(self, run: str, *, detach: bool = True, text: Union[bool, str] = False) -> Run:
        """As :meth:`resume`."""
        return Run(await awaited((await self._anative()).resume(run, detach, _pieces(text))))

    def resume_all(self, *, detach: bool = True) -> "dict[str, Union[Run, Exception]]":
        """Drives every run of the journal that the last process left: by ID the run, or why it stays as it is."""
        return _resumed(self._native().resume_all(detach).wait())

    async def aresume_all(self, *, detach: bool = True) -> "dict[str, Union[Run, Exception]]":
        """As :meth:`resume_all`."""
        return _resumed(await awaited((await self._anative()).resume_all(detach)))

    def run_by_id(self, id: str) -> Run:
        """A run of the journal, whichever process drives it: to answer it, to read it, to stop it."""
        return Run(self._native().run_by_id(id))

    # Tenants.

    def set_tenant(self, tenant: Tenant) -> None:
        """Makes a tenant known, or replaces it: calls and runs on its behalf have what it grants, and nothing else.

        Raises :class:`HostError` or :class:`RejectedError` if it cannot be served; it then stays as it was.
        """
        self._native().set_tenant(*self._tenant(tenant)).wait()

    async def aset_tenant(self, tenant: Tenant) -> None:
        """As :meth:`set_tenant`."""
        await awaited((await self._anative()).set_tenant(*self._tenant(tenant)))

    @staticmethod
    def _tenant(tenant: Tenant) -> "tuple[Any, ...]":
        model = None if tenant.model is None else PythonModel(tenant.model).submit
        return tenant._data(), model, submitted(tenant.providers)

    def remove_tenant(self, name: str) -> bool:
        """Forgets a tenant; calls and runs that name it are refused from now on. ``False`` if there was none."""
        return self._native().remove_tenant(name)

    # Closing.

    def close(self, grace: float = 5.0) -> None:
        """Ends in order: calls and runs in flight have ``grace`` seconds, then they are stopped with their receipts."""
        if self._built is not None and not self._is_closed:
            self._is_closed = True
            self._built.close(grace).wait()

    async def aclose(self, grace: float = 5.0) -> None:
        """As :meth:`close`."""
        if self._built is not None and not self._is_closed:
            self._is_closed = True
            await awaited(self._built.close(grace))

    def __enter__(self) -> "Host":
        return self

    def __exit__(
        self, kind: Optional[type], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Host":
        return self

    async def __aexit__(
        self, kind: Optional[type], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        await self.aclose()


def _resumed(listed: "list[Any]") -> "dict[str, Union[Run, Exception]]":
    return {id: error if error is not None else Run(run) for id, run, error in listed}


def _end() -> None:
    for host in list(_OPEN):
        try:
            host.close(grace=0)
        except Exception:  # noqa: S110 - the interpreter ends
            pass
    _native.shut_down()


atexit.register(_end)
