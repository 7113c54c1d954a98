"""Operations as tools of LlamaIndex: ``pip install opcell[llama-index]``.

>>> agent = FunctionAgent(tools=operation_tools(host, ["repo/inventory"]), llm=llm)
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput

from ._host import Host, Reply
from ._operations import OnReply, Operation, chosen, receipt, text

__all__ = ["OperationTool", "operation_tools"]


def operation_tools(
    host: Host, operations: Optional[Sequence[str]] = None, *, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[OperationTool]":
    """Returns operations as tools, all of them by default: ``repo/inventory`` is ``repo_inventory``.

    The output of a failed call has ``is_error``, and of a refusal the change that would allow it; ``raw_output`` has
    the data and the receipt. ``on_reply(reply, operation)`` gets every reply; other options are those of
    :meth:`opcell.Host.invoke`.
    """
    return [OperationTool(operation) for operation in chosen(host, operations, on_reply, **options)]


class _Metadata(ToolMetadata):
    """Has the operation's own schema instead of a model of pydantic."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(description=operation.description, name=operation.name)
        self._schema = operation.schema

    def get_parameters_dict(self) -> "dict[str, Any]":
        return self._schema


class OperationTool(AsyncBaseTool):
    """An operation as a tool."""

    def __init__(self, operation: Operation) -> None:
        self._operation, self._metadata = operation, _Metadata(operation)

    @property
    def metadata(self) -> ToolMetadata:
        return self._metadata

    def _output(self, arguments: "dict[str, Any]", reply: Reply) -> ToolOutput:
        raw = {"data": reply.data, "receipt": receipt(reply)}
        return ToolOutput(self._operation.name, text(reply), None, arguments, raw, is_error=not reply.ok)

    def call(self, *args: Any, **arguments: Any) -> ToolOutput:
        given = args[0] if args else arguments
        return self._output(arguments, self._operation.invoke(given))

    async def acall(self, *args: Any, **arguments: Any) -> ToolOutput:
        given = args[0] if args else arguments
        return self._output(arguments, await self._operation.ainvoke(given))
