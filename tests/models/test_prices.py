"""Prices and counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import Refused
from overnight.models.prices import FREE, Price, Rates, price_of
from overnight.models.settings import PriceSettings, ProviderSettings, ReleaseSettings
from overnight.models.usage import Size, Usage, truncation

URL = "http://127.0.0.1:1/v1"
counts = st.integers(0, 10**6)


def priced(provider: str, model: str) -> Price:
    return price_of(ReleaseSettings(provider, model), provider, ProviderSettings("openai", URL), None)


def test_the_list_s_prices() -> None:
    assert priced("openai", "gpt-5").cost_usd(Usage(10**6, 10**6)) == pytest.approx(1.25 + 10)
    assert priced("openai", "gpt-5").cost_usd(Usage(10**5, 0, cache_read=10**5)) == pytest.approx(0.0125)
    haiku = priced("anthropic", "claude-haiku-4-5")
    assert haiku.cost_usd(Usage(10**5, cache_write=10**5)) == pytest.approx(0.125)
    assert haiku.cost_usd(Usage(10**5, cache_write=10**5, cache_write_long=10**5)) == pytest.approx(0.2)


def test_a_long_prompt_costs_the_higher_rate_for_all_of_it() -> None:
    sonnet = priced("anthropic", "claude-sonnet-4-5")
    assert sonnet.cost_usd(Usage(200_000)) == pytest.approx(0.6)
    assert sonnet.cost_usd(Usage(200_001)) == pytest.approx(1.2, rel=1e-4)
    assert sonnet.cost_usd(Usage(200_001, 10**6)) == pytest.approx(1.2 + 22.5, rel=1e-4)


def test_what_is_not_listed_is_refused_free_or_the_worst() -> None:
    release, provider = ReleaseSettings("box", "my-own"), ProviderSettings("openai-compatible", URL)
    with pytest.raises(Refused):
        price_of(release, "box", provider, None)
    assert price_of(release, "box", ProviderSettings("openai-compatible", URL, free=True), None) is FREE
    assert price_of(release, "box", provider, PriceSettings(3, 4)).cost_usd(Usage(10**6, 10**6)) == pytest.approx(7)
    assert (
        price_of(ReleaseSettings("box", "x", price=PriceSettings(1, 2)), "box", provider, None).source == "configured"
    )


@given(counts, counts, counts, counts, st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_what_is_set_aside_is_never_less_than_what_it_costs(
    text: int, output: int, read: int, written: int, rates: list[float]
) -> None:
    """Whatever the provider caches; also across a step of the rate, as long as the long prompt costs no less."""
    low = Rates(*rates[:5])
    high = Rates(*[rate + more for rate, more in zip(rates[:5], rates[5:], strict=True)])
    price = Price(((0, low), (1000, high)), "made up")
    size = Size(bytes=text)
    read, written = min(read, text), min(written, max(0, text - read))
    usage = Usage(text, output, cache_read=read, cache_write=written, cache_write_long=written // 2)
    assert price.most_usd(size.most(0), output) >= price.cost_usd(usage) - 1e-9


def test_a_cut_context() -> None:
    size = Size(bytes=12_000)
    assert "cut" in truncation(size, Usage(400), lambda: 2000)
    assert not truncation(size, Usage(2000), lambda: 2000)
    assert not truncation(size, Usage(400, estimated=True), lambda: 2000)
    assert not truncation(size, Usage(2500), lambda: pytest.fail("counted for nothing"))
    assert not truncation(Size(bytes=1000), Usage(50), lambda: 150), "short ones say too little"
