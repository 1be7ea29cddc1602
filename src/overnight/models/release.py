"""Releases: what a model name stands for at this moment."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from overnight.core.errors import NotFound, Refused, SettingsError
from overnight.core.schema import suggest
from overnight.models.prices import Price, price_of
from overnight.models.settings import ModelSettings, ProviderSettings, ReleaseSettings
from overnight.models.upstream.target import Target, Timeouts


@dataclass(frozen=True)
class Release:
    """A name, resolved: whom to send a request to, as what, and what that costs.

    Attributes:
        name: of the release.
        settings: as configured.
        provider_name: of the provider.
        provider: as configured.
        target: where the provider is.
        timeouts: how long to wait for it.
    """

    name: str
    settings: ReleaseSettings
    provider_name: str
    provider: ProviderSettings
    target: Target
    timeouts: Timeouts

    @property
    def model(self) -> str:
        """The provider's name for the model."""
        return self.settings.model


class Releases:
    """All releases of one state of the configuration. Immutable; a changed configuration makes another."""

    def __init__(self, settings: ModelSettings) -> None:
        """Resolve every name.

        Raises:
            SettingsError: a provider or fallback that is named is not there.
        """
        self.settings = settings
        self._releases: dict[str, Release] = {}
        self._prices: dict[str, Price] = {}
        for name, release in settings.models.items():
            provider = settings.providers.get(release.provider)
            if provider is None:
                raise SettingsError(
                    f"[models.{name}] names the provider {release.provider!r}, which is not configured",
                    hint=suggest(release.provider, settings.providers)
                    if settings.providers
                    else "add [providers.NAME]",
                )
            for fallback in release.fallbacks:
                if fallback not in settings.models:
                    raise SettingsError(
                        f"[models.{name}] falls back to {fallback!r}, which is not configured",
                        hint=suggest(fallback, settings.models),
                    )
            timeouts = Timeouts(provider.connect_timeout, provider.timeout, provider.idle_timeout)
            target = Target.of(provider.base_url)
            self._releases[name] = Release(name, release, release.provider, provider, target, timeouts)

    @property
    def all(self) -> Mapping[str, Release]:
        """By name."""
        return self._releases

    def get(self, name: str) -> Release:
        """The release of that name.

        Raises:
            NotFound: there is none.
        """
        found = self._releases.get(name)
        if found is None:
            hint = suggest(name, self._releases) if self._releases else "add [models.NAME] to overnight.toml"
            raise NotFound(f"there is no model {name!r} here", hint=hint)
        return found

    def candidates(self, name: str) -> list[Release]:
        """The release of that name, then its fallbacks, each once.

        Raises:
            NotFound: there is none of that name.
        """
        first = self.get(name)
        found = {first.name: first}
        for fallback in first.settings.fallbacks:
            found.setdefault(fallback, self._releases[fallback])
        return list(found.values())

    def look_up_prices(self) -> None:
        """Look every price up now, so that no call waits for the list to be read. What has none is refused later."""
        for release in self._releases.values():
            with contextlib.suppress(Refused):
                self.price(release)

    def price(self, release: Release) -> Price:
        """What it costs.

        Raises:
            Refused: nobody knows.
        """
        price = self._prices.get(release.name)
        if price is None:
            price = price_of(release.settings, release.provider_name, release.provider, self.settings.gateway.unpriced)
            self._prices[release.name] = price
        return price
