from collections.abc import Callable

import pytest

from overnight.kernel.masking import Masker, MaskingSettings, Owner, Sink, Vault

OWNER = Owner("acme", "researcher", "ses_1")


@pytest.fixture
def owner() -> Owner:
    return OWNER


@pytest.fixture
def masker() -> Masker:
    return Masker(Vault(OWNER))


@pytest.fixture
def everything() -> Sink:
    """A sink of the owner's own that may have all."""
    return Sink(OWNER, "secret")


@pytest.fixture
def masker_with() -> Callable[[MaskingSettings], Masker]:
    return lambda settings: Masker(Vault(OWNER), settings)
