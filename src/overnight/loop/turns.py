"""Which author's turn it is: who earned recent gains gets more, and nobody less than a fair minimum."""

import random
from collections.abc import Sequence

from overnight.loop.authors.base import Author, Past

WINDOW = 40
# Each author keeps at least this share of the turns, split among all, so that a slow starter is heard again.
FLOOR = 0.3


def pick(authors: Sequence[Author], history: Sequence[Past], seed: int, n: int) -> Author:
    """The author of experiment `n`: drawn by share of recent keeps, the same again for the same record.

    Every author's share is FLOOR / len(authors) plus the rest in proportion to (keeps + 1) / (turns + 2) over its last
    `WINDOW` experiments (Laplace's rule of succession).
    """
    if len(authors) == 1:
        return authors[0]
    rates = []
    for author in authors:
        turns = [past for past in history if past.author == author.name][-WINDOW:]
        rates.append((sum(past.status == "keep" for past in turns) + 1) / (len(turns) + 2))
    weights = [FLOOR / len(authors) + (1 - FLOOR) * rate / sum(rates) for rate in rates]
    return random.Random(f"turns:{seed}:{n}").choices(authors, weights)[0]
