"""Server-sent events: what a feed has to say, to one open page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from matrixrl.pages.feed import Feed

__all__ = ["event_stream"]

_TICK = 0.2  # seconds between two checks for news or for the end
_HEARTBEAT = 25  # ticks without news after which a comment is sent, so that a lost connection is noticed


async def event_stream(feed: Feed, is_over: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield each new part of a feed as an event with its name, and a comment from time to time if there is none.

    Args:
        feed: The feed, which is shared by all streams.
        is_over: Function that says whether the stream must end.
    """
    yield "retry: 1000\n\n"
    seen: dict[str, int] = {}
    silence = 0
    while not is_over():
        parts = await asyncio.to_thread(feed.latest) if feed.is_old else feed.parts
        news = {name: part for name, part in parts.items() if seen.get(name) != part[0]}
        for name, (version, text) in news.items():
            seen[name], silence = version, 0
            yield f"event: {name}\ndata: {text}\n\n"
        if silence >= _HEARTBEAT:
            silence = 0
            yield ": nothing new\n\n"
        silence += 1
        await asyncio.sleep(_TICK)
