"""The one line of a program's last words that says what was wrong."""

import re
from typing import Final

_EXCEPTION: Final = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt)\b")
_LONGEST_CHARACTERS: Final = 300


def telling_line(text: str) -> str:
    """The most telling line of an error: the exception at its end, else the first; "" if it says nothing.

    A Python traceback ends with its exception, whatever that is called; what stands above is the way to it.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return ""
    traced = any(line.startswith("Traceback (most recent call last)") for line in lines)
    told = lines[-1] if traced or _EXCEPTION.match(lines[-1]) else lines[0]
    return told[:_LONGEST_CHARACTERS]
