"""What calls cost. Prices come from the configuration, else from `genai-prices`, which ships them; never from a guess:
a model without a price is refused unless the configuration says what unknown models cost.
"""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from overnight.core.errors import Refused
from overnight.models.settings import PriceSettings, ProviderSettings, ReleaseSettings
from overnight.models.usage import Usage

_FREE: Final = "free"
_UNKNOWN_FEE_USD: Final = 0.035
"""The highest fee in the price list of November 2026: a web search at Google's."""
FREE_TOOLS: Final = frozenset(
    {"web_fetch", "tool_search_tool_regex", "tool_search_tool_bm25", "tool_search", "mcp", "mcp_toolset"}
)
"""Run by the provider, or by a server of the client's, without a fee of their own."""


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
        fees: of a use of a tool that the provider runs itself, by the tool's name.
        request_usd: of a call, beside its tokens.
        aside_usd: what is set aside beside tokens and `request_usd`; no part of the cost.
        context: tokens that the model takes; 0 is not known.
        rounds: how often the model may read all that it takes once more, for tools that the provider runs itself.
    """

    rates: tuple[tuple[int, Rates], ...]
    source: str
    fees: Mapping[str, float] = field(default_factory=dict)
    request_usd: float = 0.0
    aside_usd: float = 0.0
    context: int = 0
    rounds: int = 0
    _starts: Sequence[int] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        assert self.rates and self.rates[0][0] == 0
        object.__setattr__(self, "_starts", [start for start, _ in self.rates])

    def cost_usd(self, usage: Usage) -> float:
        """What a call cost."""
        rates = self._at(usage.input)
        cached = min(usage.cache_read + usage.cache_write, usage.input)
        fees = sum(number * self._charged_usd(tool) for tool, number in usage.uses) if usage.uses else 0.0
        return (
            self.request_usd
            + fees
            + (usage.input - cached) * rates.input
            + usage.cache_read * rates.cache_read
            + (usage.cache_write - usage.cache_write_long) * rates.cache_write
            + usage.cache_write_long * rates.cache_write_long
            + usage.output * rates.output
        )

    def most_usd(self, input_tokens: int, output_tokens: int) -> float:
        """The most a call can cost, whatever the provider caches."""
        rates = self._at(input_tokens)
        return (
            self.request_usd
            + self.aside_usd
            + input_tokens * max(rates.input, rates.cache_read, rates.cache_write, rates.cache_write_long)
            + output_tokens * rates.output
        )

    def fee_usd(self, tool: str) -> float | None:
        """What a use of a provider's own tool costs; None if nobody knows."""
        return 0.0 if self.source == _FREE or tool in FREE_TOOLS else self.fees.get(tool)

    def _charged_usd(self, tool: str) -> float:
        # A provider may report what nobody asked for; it is not free.
        fee = self.fee_usd(tool)
        return max([_UNKNOWN_FEE_USD, *self.fees.values()]) if fee is None else fee

    def _at(self, input_tokens: int) -> Rates:
        return self.rates[max(0, bisect.bisect_left(self._starts, input_tokens) - 1)][1]


_DEARER: Final[Mapping[str, frozenset[str]]] = {
    "service_tier": frozenset({"priority"}),
    "speed": frozenset({"fast"}),
    "inference_geo": frozenset({"us"}),
}
"""What a request may ask for that providers charge more for than the list says: up to six times as much."""


def dearer(body: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """What a request asks for beyond the price that is known, in words; empty if it doesn't.

    Args:
        body: as it is to be sent.
        params: of the release: whoever configures it there sets its price too.
    """
    for name, values in _DEARER.items():
        if name not in params and isinstance(body.get(name), str) and body[name] in values:
            return (
                f"{name} = {body[name]!r} costs more than the price that is known, so it is not asked for;"
                " set it in params of a model of its own, with its price"
            )
    return ""


FREE: Final = Price(((0, Rates(0.0, 0.0, 0.0, 0.0, 0.0)),), _FREE)


def price_of(
    release: ReleaseSettings, provider_name: str, provider: ProviderSettings, unpriced: PriceSettings | None
) -> Price:
    """The price of a release.

    Raises:
        Refused: nobody knows it.
    """
    if release.price is not None:
        return replace(_configured(release.price, "configured"), fees=provider.fees, context=release.context)
    if provider.free:
        return FREE
    found = _listed(provider.prices or provider.via or provider_name, release.model)
    if found is not None:
        return replace(found, fees={**found.fees, **provider.fees}, context=release.context or found.context)
    if unpriced is not None:
        worst = _configured(unpriced, "configured for unpriced models")
        return replace(worst, fees=provider.fees, context=release.context)
    raise Refused(
        f"nobody knows what {release.model!r} of provider {provider_name!r} costs, so it is not called",
        reason="unpriced_model",
        hint="set its price = { input = …, output = … }, or free = true for the provider, or [gateway] unpriced",
    )


_FEES: Final = {
    "web_search": "web_searches_kcount",
    "file_search": "storage_searches_kcount",
    "code_execution": "code_executions_kcount",
}
"""Our name for a tool → the list's for a thousand uses."""


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
    fees = {tool: _rate(getattr(listed, name, None), 0) * 1e3 for tool, name in _FEES.items()}
    return Price(
        tuple(rates),
        f"genai-prices: {found.provider.id}/{found.model.id}",
        {tool: fee for tool, fee in fees.items() if fee},
        _rate(getattr(listed, "requests_kcount", None), 0) * 1e3,
        context=found.model.context_window or 0,
    )


def _rate(price: Any, start: int) -> float:
    if price is None:
        return 0.0
    for tier in reversed(getattr(price, "tiers", ())):
        if start >= tier.start:
            return float(tier.price) / 1e6
    return float(getattr(price, "base", price)) / 1e6
