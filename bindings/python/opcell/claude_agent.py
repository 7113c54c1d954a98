"""Operations as an in-process MCP server of the Claude Agent SDK: ``pip install opcell[claude-agent]``.

>>> options = ClaudeAgentOptions(
...     mcp_servers={"opcell": operation_server(host, ["repo/inventory"])},
...     allowed_tools=["mcp__opcell__repo_inventory"],
... )
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from claude_agent_sdk.types import McpSdkServerConfig

from ._host import Host
from ._native import __version__
from ._operations import OnReply, Operation, chosen, text

__all__ = ["operation_server", "operation_tools"]


def operation_tools(
    host: Host, operations: Optional[Sequence[str]] = None, *, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[SdkMcpTool[Any]]":
    """Returns operations as tools, all of them by default: ``repo/inventory`` is ``repo_inventory``.

    A failure is a tool result with ``is_error``, a refusal has the change that would allow it. ``on_reply(reply,
    operation)`` gets every reply with its receipt; other options are those of :meth:`opcell.Host.invoke`.
    """
    return [_tool(operation) for operation in chosen(host, operations, on_reply, **options)]


def operation_server(
    host: Host,
    operations: Optional[Sequence[str]] = None,
    *,
    name: str = "opcell",
    on_reply: Optional[OnReply] = None,
    **options: Any,
) -> McpSdkServerConfig:
    """Returns a server with these operations, for ``mcp_servers``; options are those of :func:`operation_tools`."""
    tools = operation_tools(host, operations, on_reply=on_reply, **options)
    return create_sdk_mcp_server(name, __version__, tools)


def _tool(operation: Operation) -> "SdkMcpTool[Any]":
    async def call(arguments: "dict[str, Any]") -> "dict[str, Any]":
        reply = await operation.ainvoke(arguments)
        return {"content": [{"type": "text", "text": text(reply)}], "is_error": not reply.ok}

    return SdkMcpTool(operation.name, operation.description, operation.schema, call)
