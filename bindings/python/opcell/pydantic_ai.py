"""Operations as tools of Pydantic AI: ``pip install opcell[pydantic-ai]``.

>>> agent = Agent(model, tools=operation_tools(host, ["repo/inventory"]))
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from pydantic_ai import Tool, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from ._host import Host
from ._operations import OnReply, Operation, chosen, receipt, text

__all__ = ["operation_tools"]


def operation_tools(
    host: Host, operations: Optional[Sequence[str]] = None, *, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[Tool[Any]]":
    """Returns operations as tools, all of them by default: ``repo/inventory`` is ``repo_inventory``.

    A failure is a failed tool result, which the model reads and no retry is spent on; a refusal has the change that
    would allow it. The metadata of every other result has the receipt. ``on_reply(reply, operation)`` gets every
    reply; other options are those of :meth:`opcell.Host.invoke`.
    """
    return [_tool(operation) for operation in chosen(host, operations, on_reply, **options)]


def _tool(operation: Operation) -> "Tool[Any]":
    async def call(**arguments: Any) -> ToolReturn:
        reply = await operation.ainvoke(arguments)
        if not reply.ok:
            raise ToolFailed(text(reply))
        return ToolReturn(reply.data, metadata={"receipt": receipt(reply)})

    return Tool.from_schema(call, operation.name, operation.description, operation.schema)
