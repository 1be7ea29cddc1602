from hypothesis import given
from hypothesis import strategies as st

from overnight.sandbox.output import Output


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_short_output_is_kept_and_long_output_keeps_both_ends(pieces: list[bytes], limit: int) -> None:
    output = Output(limit)
    for piece in pieces:
        output.add(piece)
    whole = b"".join(pieces)
    assert output.truncated == (len(whole) > limit)
    value = output.value()
    if not output.truncated:
        assert value == whole
    else:
        head, tail = limit // 2, limit - limit // 2
        note = b"\n[... %d bytes dropped ...]\n" % (len(whole) - limit)
        assert value == whole[:head] + note + whole[len(whole) - tail :]


def test_a_flood_stays_small() -> None:
    output = Output(1000)
    for _ in range(1000):
        output.add(b"x" * 65536)
    assert b"%d bytes dropped" % (65_536_000 - 1000) in output.value()
