"""Operations as tools of the OpenAI Agents SDK: ``pip install opcell[openai-agents]``.

>>> agent = Agent(name="reader", tools=operation_tools(host, ["repo/inventory"]))
"""

from __future__ import annotations

import json
from typing import Any, Optional, Sequence

from agents import FunctionTool

from ._host import Host
from ._operations import OnReply, Operation, chosen, text

__all__ = ["operation_tools"]


def operation_tools(
    host: Host, operations: Optional[Sequence[str]] = None, *, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[FunctionTool]":
    """Returns operations as tools, all of them by default: ``repo/inventory`` is ``repo_inventory``.

    The model reads a failure as the tool's output, a refusal with the change that would allow it. ``on_reply(reply,
    operation)`` gets every reply with its receipt; other options are those of :meth:`opcell.Host.invoke`.
    """
    return [_tool(operation) for operation in chosen(host, operations, on_reply, **options)]


def _tool(operation: Operation) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            return f"Error: the arguments are not JSON: {error}"
        reply = await operation.ainvoke(given)
        return text(reply) if reply.ok else f"Error: {text(reply)}"

    return FunctionTool(
        name=operation.name,
        description=operation.description,
        params_json_schema=operation.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
