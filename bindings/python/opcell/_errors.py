"""Exceptions, one class for each kind of error, and refusals as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from ._receipts import Receipt

__all__ = [
    "Busy",
    "CallError",
    "CallTimeout",
    "Cancelled",
    "Closing",
    "Denial",
    "Denied",
    "EngineFailure",
    "ForkError",
    "HostError",
    "HostFailure",
    "InvalidArguments",
    "LimitReached",
    "MalformedResult",
    "ModelFailure",
    "OpcellError",
    "Panicked",
    "PluginFailure",
    "RejectedError",
    "RunError",
    "ToolFailure",
    "ToolServerFailure",
    "Trapped",
    "UnknownOperation",
]


@dataclass(frozen=True)
class Denial:
    """A refusal: what was asked for, the rule that refused it, and what would change that."""

    capability: str
    """Such as ``files workspace`` or ``http GET https://example.com``."""
    rule: str
    """The rule that refused it, as a clause."""
    remedy: Mapping[str, Any]
    """The change that would allow it, as data; ``kind`` says which."""
    message: str
    """The refusal in a sentence."""
    command: Optional[str] = None
    """The same change as a command of ``opcell`` or a setting of the project file."""

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> "Denial":
        capability, rule = data.get("capability", ""), data.get("rule", "")
        message = data.get("message") or f"{capability} is denied: {rule}"
        return cls(capability, rule, data.get("remedy") or {}, message, data.get("command"))

    def __str__(self) -> str:
        return self.message


class OpcellError(Exception):
    """Every error of this package."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message: str = message
        """One sentence for people."""
        self.code: str = code
        """Stable and machine-readable, kebab-case."""

    def __reduce__(self) -> Any:
        return (_restored, (type(self), dict(self.__dict__)))


def _restored(kind: "type[OpcellError]", state: "dict[str, Any]") -> OpcellError:
    error = kind.__new__(kind)
    Exception.__init__(error, state.get("message", ""))
    error.__dict__.update(state)
    return error


class ForkError(OpcellError):
    """This process was forked after Opcell had started its threads."""


class HostError(OpcellError):
    """There is no host: something that it is made of cannot be used."""


@dataclass(frozen=True)
class Finding:
    """A finding in a document or a project file."""

    code: str
    message: str
    severity: str = "error"
    help: Optional[str] = None
    line: Optional[int] = None
    column: Optional[int] = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> "Finding":
        place = data.get("span") or data
        return cls(
            data.get("code", ""),
            data.get("message", ""),
            data.get("severity", "error"),
            data.get("help"),
            place.get("line"),
            place.get("column"),
            data,
        )


class RejectedError(OpcellError):
    """A document, a project file or a plugin was refused."""

    def __init__(self, message: str, code: str, findings: "list[Finding]") -> None:
        super().__init__(message, code)
        self.findings: "list[Finding]" = findings
        """Every finding, with its place."""


class RunError(OpcellError):
    """A run cannot be started, resumed, answered or driven on."""


class CallError(OpcellError):
    """A call has no result. The class says of which kind the failure is; no plugin can choose it."""

    def __init__(self, failure: Mapping[str, Any], receipt: Optional[Receipt]) -> None:
        super().__init__(failure["message"], failure["code"])
        self.kind: str = failure["kind"]
        """The kind, as this class says it."""
        self.source: str = failure["source"]
        """The party that reports it: ``host``, ``sandbox``, ``plugin``, ``engine``, ``model`` or ``tool``."""
        self.fault: str = failure["fault"]
        """The party that can correct the cause."""
        self.details: Any = failure.get("details")
        """Structured details."""
        self.retriable: bool = bool(failure.get("retriable"))
        """``True`` if the call may be made again."""
        denial = failure.get("denial")
        self.denial: Optional[Denial] = Denial._of(denial) if denial else None
        """The refusal, where something was refused."""
        self.receipt: Optional[Receipt] = receipt
        """The receipt: what the call used and touched; ``None`` if nothing ran."""


class Busy(CallError):
    """No cell became free in time. Nothing has run: the same call may be made again."""


class CallTimeout(CallError, TimeoutError):
    """The time of the call was up. What it had begun may have happened."""


class Cancelled(CallError):
    """The call was cancelled."""


class Denied(CallError, PermissionError):
    """A rule of the operator refused something; ``denial`` says which, and what would allow it."""


class InvalidArguments(CallError, ValueError):
    """The arguments are not what the operation takes. Nothing has run."""


class UnknownOperation(CallError, LookupError):
    """There is no such operation, judge or tool. Nothing has run."""


class LimitReached(CallError):
    """The cell reached a limit other than its wall time; ``code`` says which."""


class Trapped(CallError):
    """The plugin's code trapped or panicked."""


class MalformedResult(CallError):
    """The plugin broke its contract."""


class Panicked(CallError):
    """A tool of this program ended without an answer."""


class Closing(CallError):
    """The host is closing and accepts no calls."""


class PluginFailure(CallError):
    """The plugin's own failure, with a code of its choice."""


class ModelFailure(CallError):
    """A failure of a model or its provider."""


class ToolServerFailure(CallError):
    """A failure of a tool server."""


class HostFailure(CallError):
    """Any other failure of the host, that of a tool of this program among them."""


class EngineFailure(CallError):
    """A failure by the rules of the document."""


_CALLS = {
    "busy": Busy,
    "timeout": CallTimeout,
    "cancelled": Cancelled,
    "denied": Denied,
    "invalid-arguments": InvalidArguments,
    "unknown": UnknownOperation,
    "limit": LimitReached,
    "trap": Trapped,
    "malformed": MalformedResult,
    "panicked": Panicked,
    "closing": Closing,
    "plugin": PluginFailure,
    "model": ModelFailure,
    "tool": ToolServerFailure,
    "host": HostFailure,
    "engine": EngineFailure,
}


class ToolFailure(Exception):
    """Raised by a tool of this program to fail with a code of its own: the caller gets it, a plugin or a model."""

    def __init__(self, code: str, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retriable = retriable


def call_error(failure: Mapping[str, Any], receipt: Optional[Receipt]) -> CallError:
    """Returns the exception of a failure."""
    return _CALLS.get(failure["kind"], CallError)(failure, receipt)


def make(kind: str, fields: Mapping[str, Any]) -> OpcellError:
    """Returns the exception of an error that the native module reports."""
    message, code = fields["message"], fields["code"]
    if kind == "rejected":
        return RejectedError(message, code, [Finding._of(finding) for finding in fields["findings"]])
    return {"fork": ForkError, "host": HostError, "run": RunError}.get(kind, OpcellError)(message, code)
