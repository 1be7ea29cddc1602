"""The loop's way to models: the gateway of our own process, under the budget of a run."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from overnight.loop.place import ModelAccess, OpenModels
from overnight.models.ask.client import Models
from overnight.workspace.workspace import Workspace

_TALK_TOKENS: Final = 1_200
"""Kept free of a model's context for our own instructions and for two rounds of repairs, beside the answers."""
_LOOK_S: Final = 0.2


def opener(workspace: Workspace, opened: contextlib.ExitStack) -> OpenModels:
    """Opens models for an author when it is made; `opened` closes them."""

    def open_models(model: str, run: str, budget_usd: float | None, stop: threading.Event) -> ModelAccess:
        # Most runs ask no model, and need none of this.
        from overnight.loop.authors.model import CONTEXT_TOKENS
        from overnight.models.release import Releases
        from overnight.workspace import models

        release = Releases(models.model_settings(workspace)).get(model).settings
        tokens = CONTEXT_TOKENS
        if release.context:
            room = release.context - 3 * release.max_tokens - _TALK_TOKENS
            # Two rounds of repairs show an error each, a tenth as large as the context.
            tokens = max(0, min(tokens, room * 10 // 12))
        tracer = models.tracer(workspace)
        opened.callback(tracer.close)
        client = opened.enter_context(models.models(workspace, "author", run, budget_usd))
        opened.enter_context(_stopped_with(stop, client))
        return ModelAccess(client, tracer, tokens)

    return open_models


@contextlib.contextmanager
def _stopped_with(stop: threading.Event, models: Models) -> Iterator[None]:
    """A call under way ends when the run is stopped: nobody waits ten minutes for Ctrl-C."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_LOOK_S):
            if stop.is_set():
                models.stop()
                return

    thread = threading.Thread(target=watch, name="overnight-stop-models", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
