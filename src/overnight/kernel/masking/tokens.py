"""Keys and tokens that their issuers made recognisable: a prefix, an alphabet, a length."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from overnight.kernel.masking.kinds import Span


@dataclass(frozen=True, slots=True)
class Format:
    """One issuer's format.

    Attributes:
        name: issuer, as reported.
        marks: texts one of which every token holds; what makes the search of clean text cheap.
        pattern: the whole token.
        mixed: also needs a digit and a letter after its prefix, because words could take the same form.
    """

    name: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    mixed: bool = False


def _format(name: str, marks: str, pattern: str, *, mixed: bool = False) -> Format:
    return Format(name, tuple(marks.split()), re.compile(pattern), mixed)


# Formats as their issuers document them; lengths are lower bounds where issuers have changed them before.
FORMATS: Final[tuple[Format, ...]] = (
    _format(
        "aws", "AKIA ASIA ABIA ACCA AROA AIDA AGPA ANPA",
        r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}(?![A-Z0-9])",
    ),
    _format("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,251}"),
    _format("github-fine-grained", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,244}", mixed=True),
    _format(
        "gitlab", "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- glffct- gloas-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|oas)-[A-Za-z0-9_\-]{20,}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
        mixed=True,
    ),
    _format("slack", "xox xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10,}", mixed=True),
    _format(
        "slack-webhook", "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/\-]{20,}",
    ),
    _format("discord-webhook", "/api/webhooks/", r"/api/webhooks/\d{17,20}/[A-Za-z0-9_\-]{40,}"),
    _format("telegram", ":AA", r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_\-]{32,34}"),
    _format("stripe", "k_live_ k_test_ whsec_", r"(?:[srp]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}", mixed=True),
    _format("anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_\-]{20,}", mixed=True),
    _format(
        "openai", "sk-",
        r"sk-(?<![A-Za-z0-9\-]...)(?:(?:proj|svcacct|admin"
            r"|or-v1)-)?(?=[A-Za-z0-9_\-]{0,200}[A-Z0-9])[A-Za-z0-9_\-]{20,}", mixed=True,
    ),
    _format("google-api", "AIza", r"AIza[A-Za-z0-9_\-]{35}"),
    _format(
        "google-oauth", "ya29. GOCSPX- 1//0",
        r"(?:ya29\.[A-Za-z0-9_\-.]{20,}|GOCSPX-[A-Za-z0-9_\-]{28}|1//0[A-Za-z0-9_\-]{40,})",
    ),
    _format("azure-storage", "==", r"[A-Za-z0-9+/]{86}==(?<![A-Za-z0-9+/].{88})(?<!sha512-.{88})", mixed=True),
    _format("azure-ad", "Q~", r"(?<![A-Za-z0-9_~.\-])[A-Za-z0-9_~.\-]{3}\dQ~[A-Za-z0-9_~.\-]{31,34}"),
    _format("azure-sas", "sig=", r"(?<=[?&;]sig=)[A-Za-z0-9%+/]{40,}={0,2}"),
    _format("npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _format("pypi", "pypi-", r"pypi-[A-Za-z0-9_\-]{50,}"),
    _format("jwt", "eyJ", r"eyJ(?<![A-Za-z0-9_\-]...)[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*){1,3}"),
    _format("huggingface", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{34,}"),
    _format("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    _format("xai", "xai-", r"xai-[A-Za-z0-9]{60,}"),
    _format("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    _format("replicate", "r8_", r"r8_(?<![A-Za-z0-9]...)[A-Za-z0-9]{37}"),
    _format("databricks", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?"),
    _format("digitalocean", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _format("sendgrid", "SG.", r"SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}", mixed=True),
    _format("mailgun", "key-", r"key-(?<![A-Za-z0-9]....)[a-f0-9]{32}"),
    _format("mailchimp", "-us", r"[a-f0-9]{32}-us\d{1,2}"),
    _format("twilio", "SK", r"SK(?<![A-Za-z0-9]..)[a-f0-9]{32}(?![A-Za-z0-9])"),
    _format("shopify", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _format("square", "sq0 EAAA", r"(?:sq0[a-z]{3}-[A-Za-z0-9_\-]{22,43}|EAAA[A-Za-z0-9_\-]{60})"),
    _format("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _format("notion", "ntn_ secret_", r"(?:ntn_|secret_)[A-Za-z0-9]{40,}", mixed=True),
    _format("atlassian", "ATATT3 ATCTT3 ATBB", r"(?:AT[AC]TT3[A-Za-z0-9_=\-]{60,}|ATBB[A-Za-z0-9]{28,})"),
    _format("docker", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,}"),
    _format("vault", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_\-]{24,}"),
    _format("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-=]{60,}"),
    _format("grafana", "glc_ glsa_", r"(?:glc_[A-Za-z0-9+/]{32,}={0,2}|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8})"),
    _format("newrelic", "NRAK- NRII- NRJS-", r"NR(?:AK|II|JS)-[A-Za-z0-9_\-]{19,}"),
    _format("sentry", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9_+/=\-]{40,}"),
    _format("doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._\-]{40,}"),
    _format("postman", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _format("figma", "figd_", r"figd_[A-Za-z0-9_\-]{40,}"),
    _format("supabase", "sbp_", r"sbp_[a-f0-9]{40}"),
    _format("rubygems", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _format("crates", "cio", r"cio(?<![A-Za-z0-9]...)[A-Za-z0-9]{32}(?![A-Za-z0-9])", mixed=True),
    _format("heroku", "HRKU-", r"HRKU-[A-Za-z0-9_\-]{36,}"),
    _format("alibaba", "LTAI", r"LTAI[A-Za-z0-9]{16,26}"),
    _format("age", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _format("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.\-]{32,}"),
    _format("fly", "fm1r_ fm1a_ fm2_", r"fm(?:1[ra]|2)_[A-Za-z0-9+/=,_\-]{40,}"),
)  # fmt: skip

SHORTEST: Final = 15
"""No token is shorter."""
_MARKS: Final[tuple[tuple[str, Format], ...]] = tuple((mark, each) for each in FORMATS for mark in each.marks)
WORDY: Final = frozenset(
    {"azure-storage", "azure-sas", "openai", "mailchimp", "mailgun", "twilio", "crates", "doppler"}
)
"""Formats whose mark is a part of common words, or of program text."""


def _by_sign(marks: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Marks by a character of theirs that few words have: a text without it has none of them."""
    groups: dict[str, list[str]] = {}
    for mark in dict.fromkeys(marks):
        sign = min(mark, key=lambda char: (char.islower(), char.isalnum(), mark.index(char)))
        groups.setdefault(sign, []).append(mark)
    return tuple((sign, tuple(group)) for sign, group in groups.items())


def _marks(text: str, groups: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterator[str]:
    return (mark for sign, group in groups if sign in text for mark in group if mark in text)


_BY_SIGN: Final = _by_sign(mark for mark, _ in _MARKS)
_REVERSED: Final = _by_sign(mark[::-1] for mark, _ in _MARKS if mark.strip(" .=") and len(mark) > 2)
# Marks looked for in all of a text with its blanks taken out, where each costs a microsecond a kilobyte.
_WIDESPREAD_MARKS: Final = (
    "AKIA ASIA ghp_ gho_ ghs_ github_pat_ glpat- xoxb- xoxp- k_live_ sk-ant- sk-proj- AIza GOCSPX- npm_ pypi- eyJ hf_ "
    "SG. dckr_pat_ ATATT3 whsec_"
)
_WIDESPREAD: Final = _by_sign(_WIDESPREAD_MARKS.split())

_PEM_MARK: Final = "PRIVATE KEY"
_PEM: Final = re.compile(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?:(?!-{4,5} ?(?:BEGIN|END))[A-Za-z0-9+/=\s\\:,.\-()>\"'|])*"
    r"(?:-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5})?"
)
_PUTTY: Final = re.compile(
    r"PuTTY-User-Key-File-\d:(?:(?!PuTTY-User-Key|Private-MAC)[\s\S])*(?:Private-MAC: [0-9a-f]+)?"
)


def marked_in(text: str) -> list[Format]:
    """The formats whose mark occurs in `text`, any excerpt with the long words of another."""
    if not text:
        return []
    found = set(_marks(text, _BY_SIGN))
    return list({each.name: each for mark, each in _MARKS if mark in found}.values()) if found else []


def split_token(text: str) -> bool:
    """Whether `text`, its blanks taken out, holds a token of a widely used format and not words run together."""
    for mark in _marks(text, _WIDESPREAD):
        for each in (each for other, each in _MARKS if other.startswith(mark) or mark.startswith(other)):
            if any(_mixed(match[0]) for match in each.pattern.finditer(text)):
                return True
    return False


def reversed_marks(text: str, long_words: str) -> bool:
    """Whether `text` holds a mark written backwards, so that its reverse is worth a search."""
    return "YEK ETAVIRP" in text or next(_marks(long_words, _REVERSED), None) is not None


def tokens(text: str, formats: Iterable[Format], long_words: str | None = None) -> Iterator[Span]:
    """Every token in one of `formats`; quicker with the `long_words` of `text`, where each token is."""
    for each in formats:
        if long_words is not None and each.pattern.search(long_words) is None:
            continue
        for match in each.pattern.finditer(text):
            if not each.mixed or _mixed(match[0]):
                yield Span(match.start(), match.end(), "key", each.name, match[0])


def private_keys(text: str) -> Iterator[Span]:
    """Private keys in PEM and PuTTY form, also where the end is missing or line breaks are spelt out."""
    if _PEM_MARK in text:
        for match in _PEM.finditer(text):
            yield Span(match.start(), match.end(), "private_key", "pem", match[0])
    if "PuTTY-User-Key-File-" in text:
        for match in _PUTTY.finditer(text):
            yield Span(match.start(), match.end(), "private_key", "putty", match[0])


def _mixed(token: str) -> bool:
    body = re.split(r"[-_./]", token)
    return any(any(c.isdigit() for c in part) and any(c.isalpha() for c in part) for part in body[1:] or body) or any(
        len(part) >= 16 and not part.islower() for part in body
    )
