"""What tokens cost. Prices come from the configuration, else from `genai-prices`, which ships them; never from a guess:
a model without a price is refused unless the configuration says what unknown models cost.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from overnight.core.errors import Refused
from overnight.models.settings import PriceSettings, ProviderSettings, ReleaseSettings
from overnight.models.usage import Usage


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars a token."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_long: float


@dataclass(frozen=True)
class Price:
    """What a model costs.

    Attributes:
        rates: from so many input tokens on; the rate reached holds for all tokens of the call.
        source: where the price is from.
    """

    rates: tuple[tuple[int, Rates], ...]
    source: str
    _starts: Sequence[int] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        assert self.rates and self.rates[0][0] == 0
        object.__setattr__(self, "_starts", [start for start, _ in self.rates])

    def cost_usd(self, usage: Usage) -> float:
        """What a call cost."""
        rates = self._at(usage.input)
        cached = min(usage.cache_read + usage.cache_write, usage.input)
        return (
            (usage.input - cached) * rates.input
            + usage.cache_read * rates.cache_read
            + (usage.cache_write - usage.cache_write_long) * rates.cache_write
            + usage.cache_write_long * rates.cache_write_long
            + usage.output * rates.output
        )

    def most_usd(self, input_tokens: int, output_tokens: int) -> float:
        """The most a call can cost, whatever the provider caches."""
        rates = self._at(input_tokens)
        return (
            input_tokens * max(rates.input, rates.cache_read, rates.cache_write, rates.cache_write_long)
            + output_tokens * rates.output
        )

    def _at(self, input_tokens: int) -> Rates:
        return self.rates[max(0, bisect.bisect_left(self._starts, input_tokens) - 1)][1]


FREE: Final = Price(((0, Rates(0.0, 0.0, 0.0, 0.0, 0.0)),), "free")


def price_of(
    release: ReleaseSettings, provider_name: str, provider: ProviderSettings, unpriced: PriceSettings | None
) -> Price:
    """The price of a release.

    Raises:
        Refused: nobody knows it.
    """
    if release.price is not None:
        return _configured(release.price, "configured")
    if provider.free:
        return FREE
    found = _listed(provider.prices or provider_name, release.model)
    if found is not None:
        return found
    if unpriced is not None:
        return _configured(unpriced, "configured for unpriced models")
    raise Refused(
        f"nobody knows what {release.model!r} of provider {provider_name!r} costs, so it is not called",
        reason="unpriced_model",
        hint="set its price = { input = …, output = … }, or free = true for the provider, or [gateway] unpriced",
    )


def _configured(price: PriceSettings, source: str) -> Price:
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    rates = Rates(price.input / 1e6, price.output / 1e6, read / 1e6, write / 1e6, write / 1e6)
    return Price(((0, rates),), source)


@lru_cache(maxsize=1024)
def _listed(provider: str, model: str) -> Price | None:
    # 0.3 s of import: only where a price is looked up.
    import genai_prices

    try:
        found = genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_id=provider)
    except LookupError:
        return None
    listed = found.model_price
    if listed.input_mtok is None:
        return None
    starts = {0}
    for name in ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"):
        starts.update(tier.start for tier in getattr(getattr(listed, name), "tiers", ()))
    rates = []
    for start in sorted(starts):
        into = _rate(listed.input_mtok, start)
        write = _rate(listed.cache_write_mtok, start) or into
        long = _rate(listed.cache_write_1h_mtok, start) or write
        read = _rate(listed.cache_read_mtok, start) or into
        rates.append((start, Rates(into, _rate(listed.output_mtok, start), read, write, long)))
    return Price(tuple(rates), f"genai-prices: {found.provider.id}/{found.model.id}")


def _rate(price: Any, start: int) -> float:
    if price is None:
        return 0.0
    for tier in reversed(getattr(price, "tiers", ())):
        if start >= tier.start:
            return float(tier.price) / 1e6
    return float(getattr(price, "base", price)) / 1e6
