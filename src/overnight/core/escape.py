"""Text from artifacts, models and tools, made harmless and visible before a person sees it.

Terminal escapes, other control characters, bidirectional controls and invisible characters are shown as `\\x1b`,
`\\u202e`, … instead of acting; line breaks are kept only where asked for. HTML is escaped by `html`.
"""

import html as _html
import re
import unicodedata

# Characters that print nothing though Unicode calls them letters or marks.
_BLANKS = "\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef"
_SUSPECT = re.compile(f"[^ -~]|[{_BLANKS}]")
_BLANK = re.compile(f"[{_BLANKS}]")


def _spelt(found: re.Match[str]) -> str:
    char = found[0]
    # Not printable: controls, format characters (bidi, zero-width, tags), separators, surrogates, private use.
    if (char.isprintable() and _BLANK.match(char) is None) or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible(text: str, *, lines: bool = False, limit: int = 0) -> str:
    """`text` with everything that acts or hides spelt out.

    Args:
        text: anything, from anyone.
        lines: keep newlines and tabs as they are; otherwise they are spelt out too.
        limit: cut after this many characters, and say so; 0 is no limit.
    """
    cut = len(text) - limit if limit and len(text) > limit else 0
    if cut:
        text = text[:limit]
    if lines:
        text = "\n".join("\t".join(map(_line, line.split("\t"))) for line in text.split("\n"))
    else:
        text = _line(text)
    return f"{text}… (+{cut} characters)" if cut else text


def brief(text: str, characters: int) -> str:
    """`text` on one line, made visible, at most so many characters, the last of them `…` where something was cut."""
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= characters else shown[: characters - 1].rstrip() + "…"


def _line(text: str) -> str:
    if text.isprintable() and _BLANK.search(text) is None:
        return text
    return _SUSPECT.sub(_spelt, text)


def html(text: str, *, lines: bool = True) -> str:
    """`text` as HTML character data or a quoted attribute value, with `visible` applied first."""
    return _html.escape(visible(text, lines=lines), quote=True)
