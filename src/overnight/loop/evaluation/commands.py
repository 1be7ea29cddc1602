"""Command lines as arenas write them, made into argument vectors; placeholders are filled after splitting, so that no
value can become syntax.
"""

import re
import shlex
from collections.abc import Mapping

from overnight.core.errors import ArenaError

_SHELL = re.compile(r"[$`*?~#]|^\s*\w+=|\n")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def arguments(command: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The argument vector of `command`: run as it stands where it is plain, by `/bin/sh -c` where it needs a shell.

    Args:
        command: verbatim from program.md or the settings.
        values: placeholder → value, such as `artifact`; other braces are left alone.

    Raises:
        ArenaError: unbalanced quotes, or nothing at all.
    """
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError as problem:
        raise ArenaError(f"cannot read the command {command!r}: {problem}") from problem
    if not tokens:
        raise ArenaError(f"the command {command!r} is empty")
    plain = shlex.split(command)
    if tokens != plain or _SHELL.search(command):
        quoted = {name: shlex.quote(value) for name, value in values.items()}
        return ("/bin/sh", "-c", _fill(command, quoted))
    return tuple(_fill(token, values) for token in plain)


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
