import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from overnight.core.escape import html, visible


def test_what_acts_is_spelt_out() -> None:
    assert visible("\x1b[31mred\r\n") == "\\x1b[31mred\\r\\n"
    assert visible("a\u202eb\u200bc\ufeff") == "a\\u202eb\\u200bc\\ufeff"
    assert visible("two\nlines\t", lines=True) == "two\nlines\t"
    assert visible("\udcff") == "\\udcff"
    assert visible("日本 ünï 😀") == "日本 ünï 😀"
    assert visible("x" * 10, limit=4) == "xxxx… (+6 characters)"
    assert html("<b onclick='x'>\u202e&") == "&lt;b onclick=&#x27;x&#x27;&gt;\\u202e&amp;"


@given(st.text(st.characters(categories=None)), st.booleans())
def test_nothing_that_acts_remains(text: str, lines: bool) -> None:
    shown = visible(text, lines=lines)
    shown.encode()
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Cs") or (lines and char in "\n\t")
    assert not set(html(text)) & set("<>\"'")
