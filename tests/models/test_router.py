"""Where a request goes, and why."""

import datetime
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.core.errors import NotFound, SettingsError
from overnight.core.schema import build
from overnight.models.release import Releases
from overnight.models.routing.classify import embedded
from overnight.models.routing.resources import Monitor, Resources, look
from overnight.models.routing.router import Need, Route, Router
from overnight.models.routing.settings import RouterSettings
from overnight.models.rules.rules import NoFacts, Situation
from overnight.models.settings import ModelSettings, ProviderSettings, ReleaseSettings
from overnight.store.blobs import Blobs
from overnight.store.database import Database
from overnight.trace.span import Span
from overnight.trace.storage import TraceStore

SITUATION = Situation(datetime.datetime(2026, 11, 30, 12, 0), NoFacts())
QUIET = Resources(ram_bytes=16 * 10**9, vram_bytes=None, load=0.1)
CODE, SUMMARY = "Write a Python function that merges two lists", "Summarize the article below"


@pytest.fixture
def port() -> Iterator[int]:
    """A local server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def releases(port: int) -> Releases:
    return Releases(
        ModelSettings(
            {
                "here": ProviderSettings("openai-compatible", f"http://127.0.0.1:{port}/v1", free=True),
                "cloud": ProviderSettings("openai", "https://cloud.example/v1"),
            },
            {
                "big": ReleaseSettings("cloud", "big", tier=3),
                "worker": ReleaseSettings("here", "worker", tier=2),
                "tiny": ReleaseSettings("here", "tiny", tier=1),
                "bigger": ReleaseSettings("cloud", "bigger", tier=3),
            },
        )
    )


def route(
    prompt: str, port: int, settings: RouterSettings | None = None, need: Need | None = None, seen: Resources = QUIET
) -> Route:
    settings = settings or RouterSettings()
    monitor = Monitor(settings, resources=lambda: seen)
    return Router(settings, releases(port), embedded(), monitor).route(prompt, SITUATION, need or Need())


def test_rules_answer_first(port: int) -> None:
    found = route("3 km in miles", port)
    assert (found.tier, found.model, found.ladder) == (0, "", ()) and found.answer is not None


def test_each_kind_starts_at_its_lowest_tier_and_climbs(port: int) -> None:
    assert route(SUMMARY, port).ladder == ("worker", "big", "bigger")
    assert route(CODE, port).ladder == ("big", "bigger")
    assert route("is this spam or not spam: 'free money'", port).ladder == ("tiny", "worker", "big", "bigger")


def test_combinations_are_configuration(port: int) -> None:
    settings = RouterSettings(lowest={"code": 2}, prefer={"code": "worker", "reason": "bigger"})
    assert route(CODE, port, settings).model == "worker"
    assert route("Why does ice float on water? Explain.", port, settings).ladder == ("bigger", "big")


def test_an_unclear_request_goes_up_not_down(port: int) -> None:
    found = route("hmm", port)
    assert found.label is None and found.tier == 3 and "not clear" in found.reason


def test_every_candidate_has_a_score_and_a_reason(port: int) -> None:
    found = route(CODE, port)
    why = {item.name: item.why_not for item in found.candidates}
    assert "no rule" in why["rules"] and why["worker"] == "tier 2 is below 3" and why["big"] == ""


@pytest.mark.parametrize(
    ("seen", "why"),
    [(Resources(10**9, None, 0.1), "needs 9.0 GB, 1.0 GB are free"), (Resources(10**11, None, 9.0), "busy: load 9.0")],
)
def test_a_local_model_is_offered_only_where_it_fits(port: int, seen: Resources, why: str) -> None:
    found = route(SUMMARY, port, RouterSettings(memory={"worker": 9 * 10**9}), seen=seen)
    assert found.model == "big" and why in next(item.why_not for item in found.candidates if item.name == "worker")


def test_a_graphics_card_with_room_will_do(port: int) -> None:
    seen = Resources(10**9, 24 * 10**9, 0.1)
    assert route(SUMMARY, port, RouterSettings(memory={"worker": 9 * 10**9}), seen=seen).model == "worker"


def test_a_server_that_is_not_there_is_not_offered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    found = route(SUMMARY, closed)
    assert found.model == "big" and "nothing answers" in str(found.candidates)


def test_nothing_is_chosen_below_what_is_needed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = releases(port).settings
    only = ModelSettings(everything.providers, {"worker": everything.models["worker"]})
    router = Router(RouterSettings(), Releases(only), embedded(), Monitor(RouterSettings(), resources=lambda: QUIET))
    found = router.route(CODE, SITUATION)
    assert found.tier is None and found.ladder == () and "no model of it can be had" in found.reason
    assert "of a lower one" in found.reason
    nothing = Router(RouterSettings(), Releases(ModelSettings()), embedded(), Monitor(RouterSettings()))
    assert "add [providers.NAME]" in nothing.route(CODE, SITUATION).reason


def test_a_key_that_is_missing_is_said(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUD_KEY", raising=False)
    provider = ProviderSettings("openai", "https://cloud.example/v1", api_key_env="CLOUD_KEY")
    settings = ModelSettings({"cloud": provider}, {"big": ReleaseSettings("cloud", "big")})
    router = Router(RouterSettings(), Releases(settings), embedded(), Monitor(RouterSettings()))
    assert router.offers()[0].why_not.startswith("$CLOUD_KEY is not set")
    assert "big: $CLOUD_KEY is not set" in router.route(CODE, SITUATION).reason


def test_the_slow_are_passed_over_by_what_was_measured(port: int, tmp_path: Path) -> None:
    database = Database(tmp_path / "d.db")
    for number, speed in enumerate((1.0, 1.2, 30.0)):
        span = Span.start("chat worker")
        span.started_us, span.ended_us = number * 10**9, number * 10**9 + int(100 / speed * 1e6)
        TraceStore(database, Blobs(tmp_path / "b")).write([span])
        database.execute(
            "INSERT INTO model_calls (span, trace, at_us, tenant, agent, run, key, release, provider, model, outcome,"
            " input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost_nano, estimated)"
            " VALUES (?, ?, ?, 'default', 'a', '', 'k', 'worker', 'here', 'worker', 'ok', 5, 0, 100, 0, 0, 0)",
            (span.place.span_id, span.place.trace_id, span.ended_us),
        )
    monitor = Monitor(RouterSettings(), database, resources=lambda: QUIET)
    assert monitor.tokens_s("worker") == pytest.approx(1.2)
    assert "1.2 tokens/s" in monitor.why_not(releases(port).get("worker"))
    database.close()


@given(st.text(max_size=120), st.integers(0, 3))
def test_the_ladder_only_climbs_and_starts_no_lower_than_asked(prompt: str, tier: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = route(prompt, server.getsockname()[1], need=Need(tier))
        known = releases(1).all
    tiers = [known[name].settings.tier for name in found.ladder]
    assert tiers == sorted(tiers) and all(item >= tier for item in tiers)
    assert found.tier is not None and found.tier >= tier


def test_by_name(port: int) -> None:
    assert route("3 km in miles", port, need=Need(model="tiny")).ladder == ("tiny",)
    with pytest.raises(NotFound, match=r"no model 'tinny'(?s:.)*tiny"):
        route("x", port, need=Need(model="tinny"))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"lowest": {"coding": 2}}, "'coding'"),
        ({"lowest": {"code": 0}}, "not a tier"),
        ({"memory": {"worker": "9"}}, "not a size"),
        ({"unsure": 4}, "not a tier"),
        ({"clasifier": "local"}, "classifier"),
    ],
)
def test_settings_that_cannot_be_are_said(raw: dict[str, object], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        build(RouterSettings, raw, "[router]")


def test_this_machine_can_be_looked_at() -> None:
    seen = look()
    assert seen.ram_bytes > 0 and seen.load >= 0
