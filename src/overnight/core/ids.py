"""Names and ids: readable for runs, sortable for records."""

import os
import re
import secrets
import time

from overnight.core.errors import UsageError

_FIRST = "amber brave calm clear deep early fair fond glad keen kind late lucid mild neat proud quiet swift warm wise"
_SECOND = "badger brook cedar crane dune elm finch grove heron lark linden maple otter owl pine raven reef river wren"
_RUN_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]|[._](?=[a-z0-9])){0,62}")


def run_name(now_s: float | None = None) -> str:
    """A fresh readable run name such as `nov30-quiet-otter-4f`, fit for a git ref and a folder."""
    day = time.strftime("%b%d", time.localtime(now_s)).lower()
    return f"{day}-{secrets.choice(_FIRST.split())}-{secrets.choice(_SECOND.split())}-{secrets.token_hex(1)}"


def check_run_name(name: str) -> str:
    """Return `name` if it can be a run's name.

    Raises:
        UsageError: it would not be a valid, unambiguous git ref and folder name.
    """
    if _RUN_NAME.fullmatch(name) is None or name.endswith(".lock"):
        raise UsageError(
            f"a run cannot be called {name!r}",
            hint="use up to 63 lower-case letters, digits, '-', '.' and '_', starting with a letter or digit",
        )
    return name


def new_id(prefix: str) -> str:
    """A unique id that sorts by time of creation: `prefix_` and 24 hex digits (48-bit milliseconds, 48 random bits)."""
    return f"{prefix}_{int(time.time() * 1000):012x}{os.urandom(6).hex()}"
