"""Operations as tools of LangChain and LangGraph: ``pip install opcell[langchain]``.

>>> agent = create_agent(model, tools=operation_tools(host, ["repo/inventory"]))
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from langchain_core.tools import StructuredTool, ToolException

from ._host import Host, Reply
from ._operations import OnReply, Operation, chosen, receipt, text

__all__ = ["operation_tools"]


def operation_tools(
    host: Host, operations: Optional[Sequence[str]] = None, *, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[StructuredTool]":
    """Returns operations as tools, all of them by default: ``repo/inventory`` is ``repo_inventory``.

    A failure is a tool message with the status ``error``, a refusal with the change that would allow it. The artifact
    of every other message has the receipt. ``on_reply(reply, operation)`` gets every reply; other options are those of
    :meth:`opcell.Host.invoke`.
    """
    return [_tool(operation) for operation in chosen(host, operations, on_reply, **options)]


def _answer(reply: Reply) -> "tuple[str, Any]":
    if not reply.ok:
        raise ToolException(text(reply))
    return text(reply), {"receipt": receipt(reply)}


def _tool(operation: Operation) -> StructuredTool:
    def call(**arguments: Any) -> Any:
        return _answer(operation.invoke(arguments))

    async def acall(**arguments: Any) -> Any:
        return _answer(await operation.ainvoke(arguments))

    return StructuredTool(
        name=operation.name,
        description=operation.description,
        args_schema=operation.schema,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
