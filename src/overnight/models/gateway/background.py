"""A server beside the caller: in a thread with an event loop of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Serves from entering to leaving; entering gives what `serving` yields, or raises what kept it from that.

    Args:
        name: of the thread.
        serving: yields once it is ready, and cleans up afterwards; runs in the thread.
    """

    def __init__(self, name: str, serving: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._serving = serving
        self._ready = threading.Event()
        self._given: list[T] = []
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> T:
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise self._problem
        return self._given[0]

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it and wait for its end; a second time does nothing."""
        if self._loop is None or self._stop is None:
            return
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._serving() as given:
            self._given.append(given)
            self._ready.set()
            await self._stop.wait()
