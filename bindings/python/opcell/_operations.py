"""Operations as tools of agents: what the adapters for other libraries share.

A cell has no shell: a model reaches the operations that it is offered, and these reach what their plugins are granted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

from ._errors import CallError
from ._host import Host, Reply

OnReply = Callable[[Reply, str], Any]


@dataclass(frozen=True)
class Operation:
    """An operation as a tool: its name has letters, digits, ``_`` and ``-``, at most 64."""

    host: Host
    id: str
    name: str
    description: str
    schema: "dict[str, Any]"
    on_reply: Optional[OnReply]
    options: Mapping[str, Any]

    def invoke(self, arguments: Any) -> Reply:
        """Calls the operation. Arguments that do not fit are a failure as well, which the model reads."""
        return self._seen(self.host.invoke(self.id, arguments, **self.options))

    async def ainvoke(self, arguments: Any) -> Reply:
        """As :meth:`invoke`. Cancelling the task stops the cell."""
        return self._seen(await self.host.ainvoke(self.id, arguments, **self.options))

    def _seen(self, reply: Reply) -> Reply:
        if self.on_reply is not None:
            self.on_reply(reply, self.id)
        return reply


def chosen(
    host: Host, operations: Optional[Sequence[str]] = None, on_reply: Optional[OnReply] = None, **options: Any
) -> "list[Operation]":
    """Returns operations of a host by their IDs, all of them by default.

    ``on_reply(reply, operation)`` gets every reply with its receipt; other options are those of :meth:`Host.invoke`.
    """
    listed = {entry["id"]: entry for entry in host.operations() if entry["kind"] == "operation"}
    for id in operations or ():
        if id not in listed:
            raise ValueError(f"the host has no operation `{id}`; it has {', '.join(sorted(listed)) or 'none'}")
    found: "dict[str, Operation]" = {}
    for id in listed if operations is None else operations:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", id)[:64]
        if name in found:
            raise ValueError(f"two operations have the name `{name}` as tools: choose by `operations`")
        entry = listed[id]
        schema = {"type": "object", "properties": {}, **(entry.get("arguments-schema") or {})}
        found[name] = Operation(host, id, name, entry.get("summary") or id, schema, on_reply, options)
    return list(found.values())


def text(reply: Reply) -> str:
    """Returns what a model reads of a reply: the data as JSON, or the failure with the change that would allow it."""
    if reply.error is not None:
        return failure(reply.error)
    return reply.data if isinstance(reply.data, str) else json.dumps(reply.data, ensure_ascii=False)


def failure(error: CallError) -> str:
    """Returns what a model reads of a failure: a refusal with the change that would allow it."""
    command = error.denial.command if error.denial is not None else None
    return f"{error.message} (the operator can allow it: {command})" if command else error.message


def receipt(reply: Reply) -> Any:
    """Returns the receipt as data, for the metadata of a tool's result."""
    return dict(reply.receipt.raw) if reply.receipt is not None else None
