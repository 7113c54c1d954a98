"""Waiting for operations of the native module: on a thread, or on an event loop."""

from __future__ import annotations

import asyncio
from typing import Any


async def awaited(pending: Any) -> Any:
    """Awaits an operation on the running event loop. Cancelling the task cancels the operation."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[Any]" = loop.create_future()

    def settle(result: Any, error: Any) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def done(result: Any, error: Any) -> None:
        # On a thread of the native module.
        loop.call_soon_threadsafe(settle, result, error)

    pending.start(done)
    try:
        return await future
    except asyncio.CancelledError:
        pending.cancel()
        raise
