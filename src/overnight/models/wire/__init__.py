"""Wire formats of clients and providers, one small adapter each, around one neutral form."""

from overnight.models.wire.chat import Chat
from overnight.models.wire.embeddings import Embeddings
from overnight.models.wire.messages import Messages
from overnight.models.wire.neutral import Answer, BadRequest, Delta, Wire, WireName
from overnight.models.wire.responses import Responses

WIRES: dict[WireName, Wire] = {wire.name: wire for wire in (Chat(), Responses(), Messages(), Embeddings())}

__all__ = ["WIRES", "Answer", "BadRequest", "Delta", "Wire", "WireName"]
