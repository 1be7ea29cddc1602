"""Conversations: which requests belong together, and the masked form of what was said in them.

Outside agents send their whole conversation with every request and name it nowhere. A request that begins with all the
messages of an earlier one, of the same key, continues it: the two share a trace, a vault of masked values, and what was
masked before is not masked again.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from overnight.core.ids import new_id
from overnight.kernel.masking import Masker, MaskingSettings, Owner, Sink, Vault
from overnight.models.gateway.keys import Key
from overnight.models.settings import TenantSettings
from overnight.models.wire.neutral import Message
from overnight.trace.span import new_trace_id

KEPT: Final = 4096
"""Requests that may be continued; the oldest are forgotten, and what continues them begins a conversation anew."""
_CACHED_TEXTS: Final = 4096
_SHORTEST: Final = 4
_LONGEST_NAME: Final = 20
_SMALLEST_NUMBER: Final = 10**8
# Ids minted by providers, and words of the formats; images and signatures, which would not survive a change.
_STRUCTURE: Final = frozenset(
    {
        "role",
        "type",
        "id",
        "model",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "item_id",
        "data",
        "file_data",
        "signature",
    }
    | {"encrypted_content", "media_type", "status", "detail", "format", "object", "previous_response_id"}
)


class Conversation:
    """One conversation of one key. Its masker is not thread-safe: hold `lock` while masking in another thread."""

    def __init__(self, key: Key, tenant: TenantSettings) -> None:
        self.id = new_id("conv")
        self.trace_id = new_trace_id()
        self.lock = asyncio.Lock()
        self.found = 0
        """How many places were masked so far."""
        self._owner = Owner(key.tenant, key.agent, self.id)
        self._names = tenant.names
        self._texts: OrderedDict[bytes, str | None] = OrderedDict()

    @cached_property
    def _masker(self) -> Masker:
        return Masker(Vault(self._owner), MaskingSettings(names=self._names))

    def mask(self, text: str) -> str:
        """`text` as a model or a record may see it."""
        if len(text) < _SHORTEST:
            return text
        name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if name in self._texts:
            known = self._texts[name]
            self._texts.move_to_end(name)
            return text if known is None else known
        masked = self._masker.mask(text)
        self.found += len(masked.findings)
        self._texts[name] = masked.text if masked.findings else None
        if len(self._texts) > _CACHED_TEXTS:
            self._texts.popitem(last=False)
        return masked.text

    def mask_json(self, value: Any) -> Any:
        """Everything in `value` masked that a model could read; what gives a format its structure stays."""
        if isinstance(value, str):
            return value if value.startswith("data:") and ";base64," in value[:100] else self.mask(value)
        if isinstance(value, dict):
            return {
                self._mask_key(name): item if name in _STRUCTURE and isinstance(item, str) else self.mask_json(item)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.mask_json(item) for item in value]
        if isinstance(value, int) and abs(value) >= _SMALLEST_NUMBER:
            written = str(value)
            masked = self.mask(written)
            return value if masked == written else masked
        return value

    @property
    def hides(self) -> bool:
        """Whether anything was masked, so that answers may hold placeholders."""
        return self.found > 0

    def reveal(self, text: str) -> str:
        """`text` with the values that were masked; the client is who they came from."""
        return self._masker.unmask(text, Sink(self._owner, "secret")).text if "MASKED_" in text else text

    def _mask_key(self, name: str) -> str:
        return name if len(name) <= _LONGEST_NAME and name.isidentifier() else self.mask(name)


class Conversations:
    """The conversations that may go on. For one thread."""

    def __init__(self) -> None:
        self._ends: OrderedDict[int, tuple[Conversation, int, str]] = OrderedDict()

    def find(self, key: Key, tenant: TenantSettings, messages: Sequence[Message]) -> tuple[Conversation, int, str, int]:
        """The conversation a request belongs to, a new one if it continues none.

        Returns:
            the conversation, how many messages an earlier request had, that request's span (empty if there is none),
            and a name for this request's end, for `remember`.
        """
        ends = []
        # Python's own hash: keyed anew in every process, and fast on what is hashed again with every request.
        end = hash((key.id, tenant))
        for message in messages:
            end = hash((end, message))
            ends.append(end)
        for count in range(len(ends) - 1, 0, -1):
            known = self._ends.get(ends[count - 1])
            if known is not None:
                return known[0], known[1], known[2], end
        return Conversation(key, tenant), 0, "", end

    def remember(self, conversation: Conversation, end: int, count: int, span_id: str) -> None:
        """A request was made whose messages end so; what begins with them continues it."""
        self._ends[end] = (conversation, count, span_id)
        self._ends.move_to_end(end)
        if len(self._ends) > KEPT:
            self._ends.popitem(last=False)
