"""What `overnight.toml` says of models: `[providers.NAME]`, `[models.NAME]` and `[gateway]`."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from overnight.core import schema
from overnight.core.clock import parse_duration_s
from overnight.core.errors import SettingsError
from overnight.kernel.ledger.limits import Dimension, Limit, Unit, Window
from overnight.models.upstream.target import Target

ProviderKind = Literal["openai", "openai-compatible", "anthropic", "any-llm"]
"""`openai` serves chat, responses and embeddings, `openai-compatible` chat and embeddings, `anthropic` messages,
`any-llm` chat, by the extra of that name."""

Masking = Literal["everything", "record", "nothing"]
"""`everything`: what leaves and what is kept; `record`: only what is kept in the trace; `nothing`: neither."""


_LENGTH: Final = "set max_tokens beside `provider`; it holds where clients don't say"
_ASKED: Final = "what is asked comes from the client"
_NOT_PARAMS: Final[Mapping[str, str]] = {
    "model": "set it beside `provider`",
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _LENGTH),
    **dict.fromkeys(("messages", "input", "prompt", "system", "instructions", "n", "stream", "stream_options"), _ASKED),
    **dict.fromkeys(("background", "conversation", "previous_response_id"), _ASKED),
}
"""What a call can cost follows from these, and is set aside by what the client asks."""


_WRITE_URL: Final = 'write it like "https://api.openai.com/v1"'


def _url(raw: Any) -> str:
    try:
        if isinstance(raw, str) and raw.startswith(("http://", "https://")) and Target.of(raw).host:
            return raw
    except ValueError as problem:
        raise SettingsError(f"{raw!r} is not a URL: {problem}", hint=_WRITE_URL) from problem
    raise SettingsError(f"{raw!r} is not a URL", hint=_WRITE_URL)


def _variable(raw: Any) -> str:
    # What does not look like a name may be the key itself, so it is not repeated.
    if not isinstance(raw, str) or (raw and not raw.replace("_", "a").isalnum()):
        raise SettingsError(
            "api_key_env takes the name of an environment variable, and never a key",
            hint="write it like OPENAI_API_KEY, or keep the key with `overnight model key set PROVIDER`",
        )
    return raw


def _limits(raw: Any) -> tuple[Limit, ...]:
    if not isinstance(raw, list):
        raise SettingsError(f"expected a list of tables, got {raw!r}", hint="write [[gateway.limits]]")
    return tuple(schema.build(LimitSettings, item, f"limit {n}").limit for n, item in enumerate(raw, start=1))


@dataclass(frozen=True)
class LimitSettings:
    """`[[gateway.limits]]`: see `kernel.limits.Limit`; `only = { agent = "writer" }` narrows it."""

    unit: Unit
    amount: float
    window: Window = "total"
    per: tuple[Dimension, ...] = ()
    only: Mapping[str, str] = field(default_factory=dict)

    @property
    def limit(self) -> Limit:
        """As the ledger takes it."""
        only: Any = tuple(sorted(self.only.items()))
        return Limit(self.unit, self.amount, self.window, self.per, only)


@dataclass(frozen=True)
class ProviderSettings:
    """`[providers.NAME]`.

    Attributes:
        kind: which wire formats it speaks.
        base_url: with the version: `https://api.openai.com/v1`; with `any-llm` the provider's own by default.
        via: with `any-llm`, what its SDK calls the provider: `mistral`, `bedrock`, ….
        api_key_env: the environment variable that holds the key, read when a request is sent; where it is not set, the
            key that `overnight model key set` keeps for this provider is taken; empty: none is needed.
        timeout: to the first byte of an answer, seconds in the end; `10m` by default.
        idle_timeout: between two pieces of an answer; `2m` by default.
        connect_timeout: to connect; `10s` by default.
        prices: the name under which `genai-prices` lists it; its own name by default.
        free: its calls cost nothing, as on a machine of one's own.
        headers: sent with every request.
        slots: requests it serves at a time, where others then wait in a fair queue; 0, the default, is no limit.
        longest: a request that holds one of its slots longer is ended; `10m` by default; only with `slots`.
        fees: a provider's own tool → US dollars a use, such as `{ web_search = 0.01 }`; goes before the price list.
        tool_uses: uses of each such tool that a request may make where it says nothing; 10 by default.
        shares: agent → weight where several wait for a slot, above 0; 1 for those not named.
    """

    kind: ProviderKind
    base_url: str = field(default="", metadata=schema.parsed_by(_url))
    via: str = ""
    api_key_env: str = field(default="", metadata=schema.parsed_by(_variable))
    timeout: float = field(default=600.0, metadata=schema.parsed_by(parse_duration_s))
    idle_timeout: float = field(default=120.0, metadata=schema.parsed_by(parse_duration_s))
    connect_timeout: float = field(default=10.0, metadata=schema.parsed_by(parse_duration_s))
    prices: str = ""
    free: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    slots: int = 0
    longest: float = field(default=600.0, metadata=schema.parsed_by(parse_duration_s))
    shares: Mapping[str, float] = field(default_factory=dict)
    fees: Mapping[str, float] = field(default_factory=dict)
    tool_uses: int = 10

    def __post_init__(self) -> None:
        if self.kind == "any-llm":
            if not self.via:
                raise SettingsError("kind any-llm needs `via`", hint='name the provider: via = "mistral"')
        elif self.via or not self.base_url:
            raise SettingsError(f"kind {self.kind} needs `base_url`, and `via` is for any-llm", hint=_WRITE_URL)
        if self.tool_uses < 0:
            raise SettingsError(f"tool_uses = {self.tool_uses} is no number of uses", hint="0 allows none")
        for tool, fee in self.fees.items():
            if not 0 <= fee < float("inf"):
                raise SettingsError(f"fees.{tool} = {fee:g} is no fee", hint="give US dollars a use, from 0")
        if self.slots < 0:
            raise SettingsError(f"slots = {self.slots} is no number of requests", hint="0 is no limit")
        for agent, share in self.shares.items():
            if not 0 < share < float("inf"):
                raise SettingsError(f"shares.{agent} = {share:g} is no share", hint="1 is everybody's, 2 twice as much")


@dataclass(frozen=True)
class PriceSettings:
    """`price = { input = 1.25, output = 10 }`, in US dollars a million tokens.

    Attributes:
        input: of tokens read.
        output: of tokens written.
        cache_read: of tokens read from the provider's cache; as `input` if left out.
        cache_write: of tokens written to it; as `input` if left out.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value is not None and not 0 <= value < float("inf"):
                raise SettingsError(f"a price of {value} is none", hint="give US dollars a million tokens, from 0")


@dataclass(frozen=True)
class ReleaseSettings:
    """`[models.NAME]`: what a model name stands for.

    Attributes:
        provider: a `[providers.NAME]`.
        model: the provider's name for it.
        max_tokens: the most an answer may have where the client doesn't say.
        params: put into every request, over what the client asks: `{ temperature = 0 }`; nothing that decides what is
            asked of whom, or how much a call can cost.
        fallbacks: names of other releases, tried in order when this one fails.
        attempts: tries at this one before the next, where the failure may pass; 3 by default.
        price: instead of the price list's.
        context: tokens it can take; 0 is not known.
        tier: 1 tiny, 2 local, 3 cloud.
    """

    provider: str
    model: str
    max_tokens: int = 8192
    params: Mapping[str, Any] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    attempts: int = 3
    price: PriceSettings | None = None
    context: int = 0
    tier: int = 3

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.attempts < 1:
            raise SettingsError("max_tokens and attempts are at least 1", hint="leave them out for the defaults")
        if not self.model:
            raise SettingsError("model is empty", hint="write the provider's name for it")
        if self.tier not in (1, 2, 3):
            raise SettingsError(f"tier = {self.tier} is not a tier of models", hint="1 tiny, 2 local, 3 cloud")
        for name in self.params:
            if name in _NOT_PARAMS:
                raise SettingsError(
                    f"params.{name} cannot be set: it is the gateway's to decide", hint=_NOT_PARAMS[name]
                )


@dataclass(frozen=True)
class TenantSettings:
    """`[gateway.tenants.NAME]`.

    Attributes:
        masking: what is masked; `everything` by default.
        names: of people and customers, masked beside the built-in lists.
        cache: how long an answer to the very same request may be given again; none by default.
        coalesce: the very same request at the same time is sent once; false by default.
    """

    masking: Masking = "everything"
    names: tuple[str, ...] = ()
    cache: float | None = field(default=None, metadata=schema.parsed_by(parse_duration_s))
    coalesce: bool = False


@dataclass(frozen=True)
class GatewaySettings:
    """`[gateway]`.

    Attributes:
        host: address to listen on; only this machine by default.
        port: 4100 by default; 0 lets the system choose.
        limits: of money, tokens, calls and concurrency.
        unpriced: what a model that no list prices costs; without it, such a model is refused.
        tenants: settings of tenants; those not named have the defaults.
    """

    host: str = "127.0.0.1"
    port: int = 4100
    limits: tuple[Limit, ...] = field(default=(), metadata=schema.parsed_by(_limits))
    unpriced: PriceSettings | None = None
    tenants: Mapping[str, TenantSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port = {self.port} is not a port", hint="0 to 65535; 0 lets the system choose")


@dataclass(frozen=True)
class ModelSettings:
    """Everything about models that a configuration says."""

    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    models: Mapping[str, ReleaseSettings] = field(default_factory=dict)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)

    def tenant(self, name: str) -> TenantSettings:
        """The settings of a tenant."""
        return self.gateway.tenants.get(name) or _ANY_TENANT


_ANY_TENANT = TenantSettings()
