"""Text from artifacts, models and tools, made harmless and visible before a person sees it.

Terminal escapes, other control characters, bidirectional controls and invisible characters are shown as `\\x1b`,
`\\u202e`, … instead of acting; line breaks are kept only where asked for. HTML is escaped by `html`.
"""

import html as _html
import re
import unicodedata

# Cc controls, Cf format characters (bidi, zero-width, tags, BOM), line/paragraph separators, surrogates, private use.
_BLANKS = re.compile("[\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def _harmful(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn") or _BLANKS.match(char) is not None


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
    if not text.isascii() or not text.isprintable():
        text = "".join(
            char
            if not _harmful(char) or (lines and char in "\n\t")
            else char.encode("unicode_escape", "surrogatepass").decode("ascii")
            for char in text
        )
    return f"{text}… (+{cut} characters)" if cut else text


def html(text: str, *, lines: bool = True) -> str:
    """`text` as HTML character data or a quoted attribute value, with `visible` applied first."""
    return _html.escape(visible(text, lines=lines), quote=True)
