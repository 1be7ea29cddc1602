"""One byte string for one JSON value: what hashes, approvals and signatures are computed over."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from overnight.core.errors import UsageError

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def canonical_json(value: Json) -> bytes:
    """`value` as UTF-8 JSON with sorted keys and no white space; equal values give equal bytes.

    Text is kept as it is (no Unicode normalisation: two texts that only look alike must not share a hash).

    Raises:
        UsageError: it is not JSON (NaN, infinities, other types, keys that are not text, lone surrogates).
    """
    _check(value)
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageError(
            f"not a JSON value: {problem}", hint="pass text, numbers, booleans, lists and tables"
        ) from None


def content_hash(value: Json) -> str:
    """The SHA-256 of `canonical_json(value)` in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _check(value: Json) -> None:
    # json.dumps writes the keys 1 and "1" alike; two tables must never collide that way.
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise UsageError(f"not a JSON value: the key {key!r} is not text", hint="use text as keys")
            _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)
