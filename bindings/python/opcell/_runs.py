"""Workflows and runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Iterator, Mapping, Optional, Union

from . import _native, _notebook
from ._errors import Denial, OpcellError
from ._plugins import Path
from ._receipts import Receipt
from ._waiting import awaited

__all__ = ["Event", "Outcome", "Question", "Run", "Suspended", "Text", "Workflow"]


class Workflow:
    """A compiled workflow. The name of the document decides its language."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    @classmethod
    def compile(cls, name: str, text: str) -> "Workflow":
        """Compiles a text as a document of this name, such as ``greet.edn``."""
        return cls(_native.compile_workflow(name, text))

    @classmethod
    def load(cls, path: Path) -> "Workflow":
        """Reads and compiles a document."""
        return cls(_native.load_workflow(path))

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self._native.name

    @property
    def steps(self) -> "list[str]":
        """The names of its steps."""
        return self._native.steps()

    @property
    def warnings(self) -> "list[dict[str, Any]]":
        """Warnings about the document."""
        return self._native.warnings()

    def __repr__(self) -> str:
        return f"Workflow({self.name!r})"


@dataclass(frozen=True)
class Question:
    """A question that a suspended run waits for."""

    kind: str
    """``signal``, ``grant``, ``call``, ``input`` or ``doubt``."""
    step: str
    """The step that waits."""
    id: Optional[str]
    """Names this question and no other; for :meth:`Run.approve`."""
    name: Optional[str]
    """The name of the signal or approval."""
    text: Optional[str]
    """The text of the question."""
    denial: Optional[Denial] = None
    """Of a grant: the refusal that the run asks to lift."""
    tool: Optional[str] = None
    """Of a call or a form: the tool."""
    arguments: Any = None
    """Of a call: the arguments of the model."""
    schema: Any = None
    """Of a form: the JSON Schema of its values."""
    effect: Optional[int] = None
    """Of a doubt: the effect, for :meth:`Run.settle`."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Every field."""

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> "Question":
        denial = data.get("denial")
        return cls(
            data["kind"],
            data["step"],
            data.get("id") or None,
            data.get("name"),
            data.get("question") or data.get("what") or data.get("message"),
            Denial._of(denial) if denial else None,
            data.get("tool"),
            data.get("arguments"),
            data.get("schema"),
            data.get("effect") if data["kind"] == "doubt" else None,
            data,
        )


def _questions(listed: "list[Any]") -> "list[Question]":
    return [Question._of(question) for question in listed]


@dataclass(frozen=True)
class Outcome:
    """How a run stands: ended, or suspended with its questions."""

    run: str
    """The run's ID."""
    workflow: str
    """The workflow's name."""
    status: str
    """``completed``, ``failed``, ``blocked``, ``cancelled``, ``suspended``, ``released``, or of a run in flight its state."""
    result: Any
    """The result, once it has ended."""
    reason: Optional[str]
    """The code of the failure."""
    message: Optional[str]
    """The failure in a sentence."""
    step: Optional[str]
    """The step at which it ended."""
    denial: Optional[Denial]
    """The refusal that the run failed by."""
    receipt: Optional[Receipt]
    """The receipt of the last call of the step at which the run ended."""
    questions: "list[Question]"
    """The questions that it waits for."""
    raw: Mapping[str, Any] = field(repr=False)
    """Every field."""
    _run: Any = field(default=None, repr=False, compare=False)

    @property
    def completed(self) -> bool:
        """``True`` if the run reached its end."""
        return self.status == "completed"

    @property
    def suspended(self) -> bool:
        """``True`` if the run waits for answers."""
        return self.status == "suspended"

    @classmethod
    def _of(cls, data: Mapping[str, Any], run: "Optional[Run]" = None) -> "Outcome":
        return cls(
            data["run"],
            data["workflow"],
            data["status"],
            data["result"],
            data["reason"],
            data["message"],
            data["step"],
            Denial._of(data["denial"]) if data["denial"] else None,
            Receipt(data["receipt"]) if data["receipt"] else None,
            _questions(data["questions"]),
            data,
            run,
        )

    def __getstate__(self) -> "dict[str, Any]":
        return {**self.__dict__, "_run": None}

    def _with_history(self) -> "Outcome":
        if self._run is not None and not isinstance(self._run, list):
            object.__setattr__(self, "_run", self._run.history())
        return self

    def _repr_html_(self) -> str:
        try:
            events = self._with_history()._run
        except OpcellError:
            # Such as after the end of the host.
            events = []
        return _notebook.page(self, events or [])


@dataclass(frozen=True)
class Event:
    """An event of a run."""

    seq: int
    """From 1; the parts of one journaled event share its number."""
    at: str
    """When it happened, in UTC."""
    kind: str
    """Such as ``step-entered``."""
    data: Mapping[str, Any]
    """The event as the journal keeps it."""
    receipt: Optional[Receipt]
    """The receipt that it brings."""

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> "Event":
        receipt = data["receipt"]
        return cls(data["seq"], data["at"], data["kind"], data["data"], Receipt(receipt) if receipt else None)


@dataclass(frozen=True)
class Suspended:
    """A run came to wait for answers and for nothing else."""

    questions: "list[Question]"


@dataclass(frozen=True)
class Text:
    """A piece of a model's answer, as it comes. The journal has the answer, and no pieces."""

    effect: int
    """The round that it belongs to."""
    text: str


@dataclass(frozen=True)
class Reasoning:
    """A piece of a model's reasoning, as it comes. The journal has none of it."""

    effect: int
    """The round that it belongs to."""
    text: str


@dataclass(frozen=True)
class CallPiece:
    """A piece of a model's call of a tool, as it comes; one of ``tool``, ``arguments`` and ``is_complete``."""

    effect: int
    """The round that it belongs to."""
    number: int
    """The call's number in the answer, from 0."""
    tool: Optional[str]
    """The tool, when the call begins; one that begins again replaces what came of it."""
    arguments: Optional[str]
    """The next part of the arguments, which are JSON."""
    is_complete: bool
    """``True`` once the arguments are complete."""


@dataclass(frozen=True)
class Restarted:
    """A model is asked again: the pieces of this round until now do not count."""

    effect: int
    """The round."""


Update = Union[Event, Suspended, Text, Reasoning, CallPiece, Restarted]


def _update(data: Mapping[str, Any]) -> Optional[Update]:
    if "event" in data:
        return Event._of(data["event"])
    if "questions" in data:
        return Suspended(_questions(data["questions"]))
    if "text" in data:
        return Text(data["effect"], data["text"])
    if "reasoning" in data:
        return Reasoning(data["effect"], data["reasoning"])
    if "call" in data:
        call = data["call"]
        return CallPiece(
            data["effect"], call["number"], call.get("tool"), call.get("arguments"), bool(call.get("ended"))
        )
    if "restarted" in data:
        return Restarted(data["effect"])
    return None


class Run:
    """A run: one that this host drives, or one of its journal."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def id(self) -> str:
        """The run's ID."""
        return self._native.id

    @property
    def is_driven(self) -> bool:
        """``True`` if this host drives the run."""
        return self._native.is_driven

    def outcome(self) -> Outcome:
        """Waits until this host no longer drives the run, and says how it stands then.

        A run of the journal that another process drives is waited for until it has ended.
        """
        return Outcome._of(self._native.outcome().wait(), self)

    async def aoutcome(self) -> Outcome:
        """As :meth:`outcome`. Cancelling the task ends the waiting; the run continues."""
        return Outcome._of(await awaited(self._native.outcome()), self)

    def state(self) -> Outcome:
        """Returns how the run stands now."""
        return Outcome._of(self._native.state().wait(), self)

    async def astate(self) -> Outcome:
        """As :meth:`state`."""
        return Outcome._of(await awaited(self._native.state()), self)

    def history(self) -> "list[Event]":
        """Every event until now, as the journal keeps them."""
        return [Event._of(event) for event in self._native.history().wait()]

    async def ahistory(self) -> "list[Event]":
        """As :meth:`history`."""
        return [Event._of(event) for event in await awaited(self._native.history())]

    def events(self) -> "Iterator[Update]":
        """Follows the run from its first event until this host no longer drives it.

        Gives an :class:`Event` for everything that happens, a :class:`Suspended` whenever the run waits for answers,
        and a :class:`Text` for each piece of a model's answer if the run was started with ``text=True``.
        """
        updates = self._native.updates().wait()
        while (data := updates.next().wait()) is not None:
            if (update := _update(data)) is not None:
                yield update

    async def aevents(self) -> "AsyncIterator[Update]":
        """As :meth:`events`, for ``async for``."""
        updates = await awaited(self._native.updates())
        while (data := await awaited(updates.next())) is not None:
            if (update := _update(data)) is not None:
                yield update

    def approve(
        self,
        question: str,
        *,
        by: Optional[str] = None,
        why: Optional[str] = None,
        for_the_run: bool = False,
        arguments: Optional[Mapping[str, Any]] = None,
        values: Optional[Mapping[str, Any]] = None,
    ) -> Optional[str]:
        """Answers an open question with yes: by its ID, or an approval by its name.

        A call of a model is made with ``arguments`` instead of the model's; the record keeps both. A form is filled in
        with ``values``; those that are left out are its defaults. ``why`` is for an approval, ``for_the_run`` for a
        grant or a call: what the question does not take is an error, and nothing is answered.

        Returns the step that takes the answer now. A run without a driver takes it when it is resumed.
        """
        return self._native.approve(question, by, why, for_the_run, arguments, values).wait()

    async def aapprove(
        self,
        question: str,
        *,
        by: Optional[str] = None,
        why: Optional[str] = None,
        for_the_run: bool = False,
        arguments: Optional[Mapping[str, Any]] = None,
        values: Optional[Mapping[str, Any]] = None,
    ) -> Optional[str]:
        """As :meth:`approve`."""
        return await awaited(self._native.approve(question, by, why, for_the_run, arguments, values))

    def refuse(self, question: str, *, by: Optional[str] = None, why: Optional[str] = None) -> Optional[str]:
        """Answers an open question with no; otherwise as :meth:`approve`."""
        return self._native.refuse(question, by, why).wait()

    async def arefuse(self, question: str, *, by: Optional[str] = None, why: Optional[str] = None) -> Optional[str]:
        """As :meth:`refuse`."""
        return await awaited(self._native.refuse(question, by, why))

    def settle(self, effect: int, answer: str, *, by: Optional[str] = None) -> Optional[str]:
        """Answers an effect in doubt, which may have happened before a crash: a question of the kind ``doubt``.

        ``retry`` repeats it, ``skip`` treats it as done with the result ``None``, ``fail`` treats it as failed.
        """
        return self._native.settle(effect, answer, by).wait()

    async def asettle(self, effect: int, answer: str, *, by: Optional[str] = None) -> Optional[str]:
        """As :meth:`settle`."""
        return await awaited(self._native.settle(effect, answer, by))

    def signal(self, name: str, data: Any = None, *, by: Optional[str] = None) -> Optional[str]:
        """Sends a signal to a step that waits for it, now or later; returns the step that takes it now."""
        return self._native.signal(name, data, by).wait()

    async def asignal(self, name: str, data: Any = None, *, by: Optional[str] = None) -> Optional[str]:
        """As :meth:`signal`."""
        return await awaited(self._native.signal(name, data, by))

    def cancel(self, reason: str, *, by: Optional[str] = None) -> None:
        """Asks the run to stop; it ends as cancelled."""
        self._native.cancel(reason, by).wait()

    async def acancel(self, reason: str, *, by: Optional[str] = None) -> None:
        """As :meth:`cancel`."""
        await awaited(self._native.cancel(reason, by))

    def show(self) -> Outcome:
        """Shows the run in a notebook while it goes, with its receipts and denials; returns its outcome."""
        return _notebook.show(self)

    def _repr_html_(self) -> str:
        return self.state()._repr_html_()

    def __repr__(self) -> str:
        return f"Run({self.id!r})"
