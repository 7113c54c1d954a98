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
from ._models import Answer, Message, Round, ToolRequest
from ._native import __version__
from ._notebook import demo
from ._plugins import Grant, Plugin, Tenant
from ._receipts import Receipt
from ._runs import (
    CallPiece,
    Event,
    Outcome,
    Question,
    Reasoning,
    Restarted,
    Run,
    Suspended,
    Text,
    Workflow,
)
from ._tools import Tool, ToolContext, tool

__all__ = [
    "Answer",
    "Busy",
    "CallError",
    "CallPiece",
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
    "Message",
    "ModelFailure",
    "OpcellError",
    "Outcome",
    "Panicked",
    "Plugin",
    "PluginFailure",
    "Question",
    "Reasoning",
    "Receipt",
    "RejectedError",
    "Reply",
    "Requests",
    "Restarted",
    "Round",
    "Run",
    "RunError",
    "Suspended",
    "Tenant",
    "Text",
    "Tool",
    "ToolContext",
    "ToolFailure",
    "ToolRequest",
    "ToolServerFailure",
    "Trapped",
    "UnknownOperation",
    "Workflow",
    "__version__",
    "demo",
    "project_requests",
    "tool",
]
