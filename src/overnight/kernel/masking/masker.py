"""The masker of one session: values out, placeholders in, and back again where a sink may have them."""

from dataclasses import dataclass
from typing import Final

from overnight.core.errors import Refused
from overnight.kernel.flow.label import Confidentiality
from overnight.kernel.masking.detect import detect
from overnight.kernel.masking.kinds import KINDS, PERSONAL, Finding, Kind
from overnight.kernel.masking.names import Gazetteer
from overnight.kernel.masking.vault import PLACEHOLDER, Owner, Vault

_CLEARED: Final[dict[Confidentiality, frozenset[Kind]]] = {
    "public": frozenset(),
    "private": PERSONAL,
    "secret": frozenset(KINDS),
}


@dataclass(frozen=True, slots=True)
class MaskingSettings:
    """What is masked.

    Attributes:
        kinds: all by default; a kind left out stays readable for models.
        names: people and customers of this workspace, masked wherever they stand, beside the built-in lists.
    """

    kinds: tuple[Kind, ...] = KINDS
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Masked:
    """A text that a model may see, and what was taken out of it, in order."""

    text: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a text is about to go, as the kernel knows it.

    Attributes:
        owner: on whose behalf; must be the masker's own.
        confidentiality: how far values may travel there: `secret` takes all, `private` personal data, `public` none.
        kinds: narrows further, to these kinds; None does not.
    """

    owner: Owner
    confidentiality: Confidentiality
    kinds: frozenset[Kind] | None = None

    def allows(self, kind: Kind) -> bool:
        """Whether values of `kind` may be shown there."""
        return kind in _CLEARED[self.confidentiality] and (self.kinds is None or kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Unmasked:
    """A text for a sink.

    Attributes:
        text: with the values that the sink may have; the other placeholders still stand.
        revealed: placeholders that became values, each once.
        withheld: placeholders of this session that the sink may not see.
    """

    text: str
    revealed: tuple[str, ...]
    withheld: tuple[str, ...]


class Masker:
    """Masks what models see for one owner, and un-masks what goes to a sink that may have it.

    Masking again what was masked changes nothing. Not thread-safe.
    """

    def __init__(self, vault: Vault, settings: MaskingSettings | None = None) -> None:
        """A masker over `vault`: a new one, or one opened again when a session resumes."""
        self.vault = vault
        settings = settings or MaskingSettings()
        self._kinds = frozenset(settings.kinds)
        self._names = Gazetteer(settings.names)

    def mask(self, text: str) -> Masked:
        """`text` with a placeholder for every secret and every piece of personal data found in it."""
        return self.masked_from(text, 0)

    def masked_from(self, text: str, start: int) -> Masked:
        """`text[start:]` masked, with what stands before `start` as context only; findings count in all of `text`."""
        own = list(self.vault.within(text))
        pieces: list[str] = []
        findings: list[Finding] = []
        done = start
        for span in detect(text, self._kinds, self._names):
            if span.end <= start or any(a <= span.start and span.end <= b for a, b in own):
                continue
            begin = max(span.start, start)
            value = span.value if begin == span.start else text[begin : span.end]
            placeholder = self.vault.placeholder(span.kind, value, text[begin : span.end], text)
            pieces += (text[done:begin], placeholder)
            findings.append(Finding(span.kind, span.rule, begin, span.end, placeholder))
            done = span.end
        pieces.append(text[done:])
        return Masked("".join(pieces), tuple(findings))

    def unmask(self, text: str, sink: Sink) -> Unmasked:
        """`text` with the values that `sink` may have in place of their placeholders.

        Raises:
            Refused: the sink acts for another tenant, principal or session.
        """
        if sink.owner != self.vault.owner:
            raise Refused(
                f"values masked for session {self.vault.owner.session!r} are not for session {sink.owner.session!r}",
                reason="vault_not_yours",
                hint="un-mask with the masker of the session that the text belongs to",
            )
        revealed: dict[str, None] = {}
        withheld: dict[str, None] = {}
        pieces: list[str] = []
        done = 0
        for match in PLACEHOLDER.finditer(text) if "MASKED_" in text else ():
            entry = self.vault.entry(match[0])
            if entry is None:
                continue
            if not sink.allows(entry.kind):
                withheld[match[0]] = None
                continue
            revealed[match[0]] = None
            pieces += (text[done : match.start()], entry.text)
            done = match.end()
        pieces.append(text[done:])
        return Unmasked("".join(pieces), tuple(revealed), tuple(withheld))
