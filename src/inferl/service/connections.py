"""HTTP connections: those on which nobody asks are closed, and bad requests write no lines into the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "quiet"]

PATIENCE = 30.0  # seconds for the head of a request, and for the rest of one that was refused


class Connection(H11Protocol):
    """A connection of uvicorn, which by itself would wait for ever for a head that comes byte by byte."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at the connection now and then."""
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to look."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless it follows on an answer; what came before it gets none any more."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
            if self.cycle is not None:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
        else:
            self.transport.close()

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(PATIENCE, self._look, self.cycle)

    def _look(self, before: Any) -> None:
        """Close the connection if no request has begun since the last look, and none is being answered."""
        if (before is None or before.response_complete) and self.cycle is before:
            self.transport.abort()
        else:
            self._look_later()


def quiet() -> None:
    """Leave out the warnings of uvicorn about requests, of which anybody can cause any number."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
