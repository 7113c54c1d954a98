"""Agent workflows whose operations and judges are sandboxed WebAssembly components.

>>> import opcell
>>> host = opcell.Host(plugins=[opcell.Plugin("echo", "echo.wasm")])
>>> host.call("echo/echo", {"text": "hello"})
{'text': 'hello'}
"""

from ._errors import (
    Busy,
    CallError,
    CallTimeout,
    Cancelled,
    Closing,
    Denial,
    Denied,
    EngineFailure,
    Finding,
    ForkError,
    HostError,
    HostFailure,
    InvalidArguments,
    LimitReached,
    MalformedResult,
    ModelFailure,
    OpcellError,
    Panicked,
    PluginFailure,
    RejectedError,
    RunError,
    ToolFailure,
    ToolServerFailure,
    Trapped,
    UnknownOperation,
)
from ._host import Host, Reply, Requests, project_requests
from ._native import __version__
from ._plugins import Grant, Plugin
from ._receipts import Receipt
from ._runs import Event, Outcome, Question, Run, Suspended, Workflow
from ._tools import Tool, ToolContext, tool

__all__ = [
    "Busy",
    "CallError",
    "CallTimeout",
    "Cancelled",
    "Closing",
    "Denial",
    "Denied",
    "EngineFailure",
    "Event",
    "Finding",
    "ForkError",
    "Grant",
    "Host",
    "HostError",
    "HostFailure",
    "InvalidArguments",
    "LimitReached",
    "MalformedResult",
    "ModelFailure",
    "OpcellError",
    "Outcome",
    "Panicked",
    "Plugin",
    "PluginFailure",
    "Question",
    "Receipt",
    "RejectedError",
    "Reply",
    "Requests",
    "Run",
    "RunError",
    "Suspended",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolServerFailure",
    "Trapped",
    "UnknownOperation",
    "Workflow",
    "__version__",
    "project_requests",
    "tool",
]
