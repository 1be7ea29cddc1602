"""Grants: signed capabilities that say who may do what, until when; a holder can narrow one but never widen it.

They are biscuits (https://www.biscuitsec.org): Ed25519-signed blocks of Datalog checks. The principal an action is
charged to comes from here and from nowhere else. Anything unexpected, from a bad signature to a database that cannot
be read, is a refusal.
"""

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from biscuit_auth import (
    Algorithm,
    AuthorizerBuilder,
    Biscuit,
    BiscuitBuilder,
    BlockBuilder,
    PrivateKey,
    PublicKey,
)

from overnight.core.errors import Refused, UsageError
from overnight.kernel.canonical import Json, content_hash
from overnight.kernel.grants.terms import Bound, Terms, call_facts
from overnight.kernel.keys import SigningKey
from overnight.kernel.session import Principal
from overnight.store.database import Database

__all__ = ["Bound", "Grant", "Grants", "Terms", "attenuate"]

# On the wall's clock, so it also counts while the machine does something else, and reaching it is a refusal. The
# library's own 1 ms failed 4 of 2,050 verifications on a busy machine, and 50 ms one process of six that was stopped
# fifteen times for 60 ms. It need not be short: how long a check can take is bounded by the forms below.
_TIME_LIMIT = timedelta(seconds=10)
_TOKEN_LIMIT = 16 * 1024
_BLOCK_LIMIT = 9
_CACHED = 4096

# Every line of a block must be one that `Terms` writes. A holder may append blocks of its own, and the library's time
# limit does not interrupt a single check: one that joins a few dozen facts five times would keep the process busy for
# hours. The library prints text unescaped, so a text could pose as syntax; but no text of ours holds a `$`, hence every
# variable of a block stands where it is in these forms, and no join is hidden.
_TEXT = r'"[^"\\$\x00-\x1f]*"'
_TOOLS = (
    rf"(?:true|false|\$t(?: == {_TEXT}|\.starts_with\({_TEXT}\))(?: \|\| \$t(?: == {_TEXT}|\.starts_with\({_TEXT}\)))*)"
)
_ITEM = rf"\$x(?: == {_TEXT}|\.starts_with\({_TEXT}\)|\.ends_with\({_TEXT}\))"
_ISSUER = re.compile(rf"(?P<name>agent|tenant|nonce)\((?P<value>{_TEXT})\);")
_CHILD = re.compile(r'child\("([a-z0-9][a-z0-9_-]{0,62})"\);')
_EXPIRY = re.compile(r"check if time\(\$now\), \$now < (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ);")
_CALL = re.compile(rf"check if (?:policy\({_TEXT}\)|tool\(\$t\), {_TOOLS});")
_BOUND = re.compile(
    rf"check all (?:arg\((?P<text>{_TEXT}), \$x\), {_ITEM}(?: \|\| {_ITEM})*"
    rf"|number\((?P<number>{_TEXT}), \$x\), \$x <= -?\d+)"
    rf"(?: or tool\(\$t\), !\({_TOOLS}\))?;"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """A token whose signature was checked.

    Attributes:
        principal: whom it was made out to: the agent named by the issuer, and the sub-agents it was handed down to.
        revocations: one id a block; revoking any of them ends this grant and all made from that block on.
        expires_at: seconds since the epoch; the earliest of its blocks', None if none says.
    """

    principal: Principal
    revocations: tuple[str, ...]
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class _Checked:
    grant: Grant
    biscuit: Biscuit
    bounded: frozenset[str]  # the arguments that the grant limits


class Grants:
    """Makes and checks grants. Thread-safe."""

    def __init__(self, database: Database, key: SigningKey) -> None:
        """Revocations are kept in `database`; `key` lies outside the workspace."""
        self._database = database
        self._private = _private_key(key.secret)
        self._public = _public_key(key.public)
        self.public = key.public
        self._tokens: OrderedDict[str, _Checked] = OrderedDict()
        self._allowed: OrderedDict[tuple[str, str, str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def mint(self, principal: Principal, terms: Terms) -> str:
        """A new token.

        Raises:
            UsageError: the terms cannot be written down.
        """
        builder = BiscuitBuilder(
            "agent({agent}); tenant({tenant}); nonce({nonce})",
            {"agent": principal.agent, "tenant": principal.tenant, "nonce": secrets.token_hex(16)},
        )
        for check in terms.checks():
            builder.add_check(check)
        return str(builder.build(self._private).to_base64())

    def verify(self, token: str) -> Grant:
        """Who holds `token`, if it was signed here and neither revoked nor, as far as it says, expired.

        Raises:
            Refused: anything else, with a reason that starts with `grant_`.
        """
        return self._current(token).grant

    def authorise(self, token: str, tool: str, arguments: Mapping[str, Json], policy: str) -> Grant:
        """Check that `token` allows this call.

        Args:
            token: as minted or attenuated.
            tool: canonical tool id.
            arguments: resolved: paths without `..`, aliases replaced.
            policy: hash of the matrix in force.

        Raises:
            Refused: it does not, for whatever reason; the reason starts with `grant_`.
        """
        found = self._current(token)
        given = {name: value for name, value in arguments.items() if name in found.bounded}
        # Nothing else decides: each line of a grant has a known form, and expiry and revocation were checked just now.
        try:
            key = (token, tool, policy, content_hash(given) if given else "")
        except UsageError as problem:
            raise Refused(
                f"the arguments of {tool} cannot be judged", reason="grant_denies", hint=problem.message
            ) from None
        with self._lock:
            if key in self._allowed:
                self._allowed.move_to_end(key)
                return found.grant
        try:
            builder = _authorizer()
            call_facts(builder, tool, given, policy)
            builder.build(found.biscuit).authorize()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # also a panic of the library, which is no Exception
            raise Refused(
                f"the grant of {found.grant.principal.agent} does not allow this call of {tool}",
                reason="grant_denies",
                hint=_brief(problem),
            ) from None
        self._remember(key)
        return found.grant

    def revoke(self, token: str, why: str) -> None:
        """End `token` and everything made from it, in every process, from now on.

        Raises:
            Refused: it was not signed here.
        """
        checked = self._parse(token)
        self._database.execute(
            "INSERT INTO revoked_grants (revocation, why, at) VALUES (?, ?, ?) ON CONFLICT (revocation) DO NOTHING",
            (checked.grant.revocations[-1], why, time.time()),
        )

    def _remember(self, key: tuple[str, str, str, str]) -> None:
        with self._lock:
            self._allowed[key] = None
            if len(self._allowed) > _CACHED:
                self._allowed.popitem(last=False)

    def _current(self, token: str) -> _Checked:
        found = self._parse(token)
        expires_at = found.grant.expires_at
        if expires_at is not None and time.time() >= expires_at:
            raise Refused(
                f"the grant of {found.grant.principal.agent} has expired", reason="grant_expired", hint="mint a new one"
            )
        ids = found.grant.revocations
        try:
            row = self._database.row(
                f"SELECT why FROM revoked_grants WHERE revocation IN ({', '.join('?' * len(ids))})", ids
            )
        except Exception as problem:
            raise Refused(
                "it cannot be told whether the grant was revoked", reason="grant_unreadable", hint=_brief(problem)
            ) from None
        if row is not None:
            raise Refused(
                f"the grant of {found.grant.principal.agent} was revoked: {row['why']}",
                reason="grant_revoked",
                hint="mint a new one",
            )
        return found

    def _parse(self, token: str) -> _Checked:
        with self._lock:
            found = self._tokens.get(token)
            if found is not None:
                self._tokens.move_to_end(token)
                return found
        try:
            checked = _check(token, self._public)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # also a panic of the library, which is no Exception
            raise Refused("the grant is not valid here", reason="grant_invalid", hint=_brief(problem)) from None
        with self._lock:
            self._tokens[token] = checked
            if len(self._tokens) > _CACHED:
                self._tokens.popitem(last=False)
        return checked


def attenuate(token: str, public: bytes, terms: Terms, *, child: str | None = None) -> str:
    """A narrower token, made by whoever holds one; needs no key but the issuer's public one.

    Args:
        token: the holder's.
        public: the issuer's public key.
        terms: what remains; whatever the token itself forbids stays forbidden.
        child: name of the sub-agent it is for.

    Raises:
        UsageError: the terms or the name cannot be written down.
        Refused: the token is not valid.
    """
    block = BlockBuilder("child({child})", {"child": child}) if child is not None else BlockBuilder("")
    if child is not None and _CHILD.fullmatch(f'child("{child}");') is None:
        raise UsageError(f"{child!r} cannot name a sub-agent", hint="use lower-case letters, digits, '-' and '_'")
    for check in terms.checks():
        block.add_check(check)
    try:
        parent = Biscuit.from_base64(token, _public_key(public))
        narrowed = str(parent.append(block).to_base64())
        _check(narrowed, _public_key(public))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:
        raise Refused("the grant cannot be narrowed", reason="grant_invalid", hint=_brief(problem)) from None
    return narrowed


def _check(token: str, public: PublicKey) -> _Checked:
    if len(token) > _TOKEN_LIMIT:
        raise UsageError(f"a grant of {len(token)} bytes is too long")
    biscuit = Biscuit.from_base64(token, public)
    blocks = biscuit.block_count()
    if blocks > _BLOCK_LIMIT or any(biscuit.block_external_key(index) is not None for index in range(blocks)):
        raise UsageError("a grant has at most nine blocks, and none signed by others")
    issued: dict[str, str] = {}
    children, expiries, bounded = [], [], set()
    for index in range(blocks):
        for number, line in enumerate(biscuit.block_source(index).rstrip("\n").split("\n")):
            # Who the principal is, the issuer's own block says, and no other.
            fact = _ISSUER.fullmatch(line) if not index else None
            child = _CHILD.fullmatch(line) if index and not number else None
            expiry, bound = _EXPIRY.fullmatch(line), _BOUND.fullmatch(line)
            if fact is not None and fact["name"] not in issued:
                issued[fact["name"]] = fact["value"][1:-1]
            elif child is not None:
                children.append(child[1])
            elif expiry is not None:
                expiries.append(datetime.fromisoformat(expiry[1]).timestamp())
            elif bound is not None:
                bounded.add((bound["text"] or bound["number"])[1:-1])
            elif _CALL.fullmatch(line) is None:
                raise UsageError(f"a grant holds a line of unknown form: {line[:80]!r}")
    principal = Principal("/".join([issued["agent"], *children]), issued["tenant"])
    grant = Grant(principal, tuple(biscuit.revocation_ids), min(expiries, default=None))
    return _Checked(grant, biscuit, frozenset(bounded))


def _authorizer() -> AuthorizerBuilder:
    builder = AuthorizerBuilder("allow if true")
    limits = builder.limits()  # type: ignore[attr-defined]  # the stubs of 0.4 lack it
    limits.max_time = _TIME_LIMIT
    builder.set_limits(limits)  # type: ignore[attr-defined]  # the stubs of 0.4 lack it
    return builder


def _private_key(secret: bytes) -> PrivateKey:
    return PrivateKey.from_bytes(secret, Algorithm.Ed25519)  # type: ignore[call-arg, attr-defined]  # old stubs


def _public_key(public: bytes) -> PublicKey:
    return PublicKey.from_bytes(public, Algorithm.Ed25519)  # type: ignore[call-arg, attr-defined]  # old stubs


def _brief(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]
