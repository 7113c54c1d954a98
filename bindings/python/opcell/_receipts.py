"""Receipts: what a call used and touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

if TYPE_CHECKING:
    from ._errors import Denial


class Receipt:
    """The receipt of one call: what it used and touched, also if it failed.

    ``raw`` has every field, as the journal keeps them; ``docs/events.md`` describes them.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw: Mapping[str, Any] = raw

    @property
    def plugin(self) -> Optional[str]:
        """The plugin's name; ``None`` of a tool's receipt."""
        return self.raw.get("plugin")

    @property
    def operation(self) -> Optional[str]:
        """The operation or judge that was called."""
        return self.raw.get("operation")

    @property
    def tool(self) -> Optional[str]:
        """The tool that was called; ``None`` of a cell's receipt."""
        return self.raw.get("tool")

    @property
    def duration_us(self) -> int:
        """Wall time in microseconds."""
        return self.raw.get("duration-us", 0)

    @property
    def queued_us(self) -> int:
        """Of this, the time in which the call waited for a cell."""
        return self.raw.get("queued-us", 0)

    @property
    def peak_memory(self) -> int:
        """Most linear memory at one time, in bytes."""
        return self.raw.get("peak-memory", 0)

    @property
    def host_calls(self) -> Mapping[str, int]:
        """Calls of host functions, by their kind."""
        return self.raw.get("host-calls", {})

    @property
    def bytes_in(self) -> int:
        """Bytes handed to the guest."""
        return self.raw.get("bytes-in", 0)

    @property
    def bytes_out(self) -> int:
        """Bytes handed to the host."""
        return self.raw.get("bytes-out", 0)

    @property
    def touched(self) -> Mapping[str, Any]:
        """Requests made and files used."""
        return self.raw.get("touched", {})

    @property
    def denials(self) -> "list[Denial]":
        """The refusals, in their order."""
        from ._errors import Denial

        return [Denial._of(denial) for denial in self.raw.get("denials", [])]

    @property
    def error(self) -> Optional[str]:
        """The kind of the failure, if it failed."""
        return self.raw.get("error")

    def __repr__(self) -> str:
        called = self.operation or self.tool or "?"
        failed = f", error={self.error!r}" if self.error else ""
        return f"Receipt({called!r}, duration_us={self.duration_us}{failed})"
