"""What a model sees: one place that fits it into a number of tokens, and says what was left out and why.

Pieces are taken by worth: the required ones first, then the most valuable for their kind, until the budget is used
up. A piece that does not fit is left out, or cut where it says that it may be. The text keeps the pieces' own order.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from overnight.core.errors import UsageError
from overnight.models.usage import estimate_tokens
from overnight.trace import names

_FRAME_TOKENS: Final = 40
"""The lines around a piece of data."""
_SMALLEST_CUT_TOKENS: Final = 60


@dataclass(frozen=True)
class Piece:
    """Something a model may see.

    Attributes:
        name: in the trace, and for the model.
        text: of it.
        worth: which comes first where not all fit; higher is sooner.
        required: without it the call makes no sense.
        trusted: a person wrote it, or the system asserts it; everything else is framed and labelled as data.
        may_be_cut: half of it is better than none.
    """

    name: str
    text: str
    worth: float = 0.0
    required: bool = False
    trusted: bool = False
    may_be_cut: bool = False


@dataclass(frozen=True)
class Context:
    """What was put together.

    Attributes:
        text: for the model.
        tokens: of it, by our own count, rather too many.
        taken: names, in the text's order, with their tokens.
        left_out: name and reason.
    """

    text: str
    tokens: int
    taken: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, str], ...]

    def attributes(self) -> dict[str, Sequence[str]]:
        """For a span."""
        return {
            names.CONTEXT_TAKEN: [f"{name}: {tokens} tokens" for name, tokens in self.taken],
            names.CONTEXT_LEFT_OUT: [f"{name}: {why}" for name, why in self.left_out],
        }


def build(pieces: Sequence[Piece], budget_tokens: int, passed_over: Sequence[tuple[str, str]] = ()) -> Context:
    """Fit `pieces` into `budget_tokens`.

    Args:
        pieces: in the order in which the model is to read them.
        budget_tokens: for all of them, frames included.
        passed_over: name and reason of what was not even offered, for the record.

    Raises:
        UsageError: what is required does not fit.
    """
    chosen: dict[int, str] = {}
    left_out = list(passed_over)
    room = budget_tokens
    ranked = sorted(range(len(pieces)), key=lambda place: (not pieces[place].required, -pieces[place].worth, place))
    for place in ranked:
        piece = pieces[place]
        text = framed(piece)
        size = estimate_tokens(text)
        if size > room and piece.may_be_cut and room - _FRAME_TOKENS >= _SMALLEST_CUT_TOKENS:
            text = framed(piece, _cut(piece.text, room - _FRAME_TOKENS))
            left_out.append((piece.name, f"cut from {size} to {estimate_tokens(text)} tokens"))
            size = estimate_tokens(text)
        if size > room:
            if piece.required:
                raise UsageError(
                    f"{piece.name} takes {size} tokens, and {room} of {budget_tokens} are left for it",
                    hint="choose a model with a larger context, or make it smaller",
                )
            left_out.append((piece.name, f"{size} tokens, {room} were left"))
            continue
        chosen[place] = text
        room -= size
    text = "\n\n".join(chosen[place] for place in sorted(chosen))
    taken = tuple((pieces[place].name, estimate_tokens(chosen[place])) for place in sorted(chosen))
    return Context(text, sum(size for _, size in taken), taken, tuple(left_out))


def framed(piece: Piece, text: str | None = None) -> str:
    """A piece as the model reads it: under its name if a person wrote it, else between marks that it can't contain."""
    text = piece.text if text is None else text
    if piece.trusted:
        return f"## {piece.name}\n\n{text}"
    # No text contains a part of its own hash but by chance, so nothing inside can close the frame.
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    name = piece.name.replace('"', "'").replace("\n", " ")
    return f'<data-{mark} name="{name}">\n{text}\n</data-{mark}>'


def _cut(text: str, tokens: int) -> str:
    """Beginning and end of `text`, with what is missing said in between."""
    note = "\n[… cut here …]\n"
    # Three bytes a token is what `estimate_tokens` goes by.
    room = max(0, tokens * 3 - len(note.encode()))
    raw = text.encode("utf-8", "surrogatepass")
    head, tail = raw[: room * 2 // 3], raw[len(raw) - room // 3 :]
    return head.decode("utf-8", "ignore") + note + tail.decode("utf-8", "ignore")
