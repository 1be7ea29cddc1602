"""Masking: secrets and personal data become placeholders before a model sees a text, and values again only at a sink
that may have them. See `docs/masking.md`.
"""

from overnight.kernel.masking.kinds import KINDS, PERSONAL, SECRETS, Finding, Kind
from overnight.kernel.masking.masker import Masked, Masker, MaskingSettings, Sink, Unmasked
from overnight.kernel.masking.stream import MaskStream, UnmaskStream
from overnight.kernel.masking.vault import Owner, Vault

__all__ = [
    "KINDS",
    "PERSONAL",
    "SECRETS",
    "Finding",
    "Kind",
    "MaskStream",
    "Masked",
    "Masker",
    "MaskingSettings",
    "Owner",
    "Sink",
    "UnmaskStream",
    "Unmasked",
    "Vault",
]
