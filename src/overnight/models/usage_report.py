"""Who used how much: the settled calls, added up."""

from dataclasses import dataclass
from typing import Final, Literal

from overnight.store.database import Database

By = Literal["tenant", "agent", "model", "run", "key", "release"]
_COLUMNS: Final[dict[By, str]] = {
    "tenant": "tenant",
    "agent": "agent",
    "model": "provider || '/' || model",
    "run": "run",
    "key": "COALESCE((SELECT name FROM gateway_keys WHERE id = key), key)",
    "release": "release",
}


@dataclass(frozen=True)
class Line:
    """One line of a report.

    Attributes:
        name: of the tenant, agent, …; empty: calls that belong to none.
        calls: attempts that were settled.
        failed: of those, that led to no answer.
        input_tokens: with those of caches.
        cached_tokens: of those, read from a provider's cache.
        output_tokens: with reasoning.
        cost_usd: US dollars.
        estimated: calls whose usage is our own count.
    """

    name: str
    calls: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float
    estimated: int


def usage_by(database: Database, by: By, since_s: float = 0.0) -> list[Line]:
    """Usage added up, the most expensive first.

    Args:
        database: of the workspace.
        by: what a line stands for.
        since_s: seconds since the epoch; what was settled before isn't counted.
    """
    rows = database.rows(
        f"SELECT {_COLUMNS[by]} AS name, COUNT(*) AS calls, SUM(outcome IN ('error', 'cancelled')) AS failed,"
        " SUM(input_tokens) AS i, SUM(cached_tokens) AS c, SUM(output_tokens) AS o, SUM(cost_nano) AS cost,"
        " SUM(estimated) AS estimated FROM model_calls WHERE at_us >= ? GROUP BY 1 ORDER BY cost DESC, calls DESC",
        (int(since_s * 1e6),),
    )
    return [
        Line(
            row["name"], row["calls"], row["failed"], row["i"], row["c"], row["o"], row["cost"] / 1e9, row["estimated"]
        )
        for row in rows
    ]
