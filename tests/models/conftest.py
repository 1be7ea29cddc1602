"""A gateway before scripted models: both real servers on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from overnight.testing import RunningGateway, ScriptedModels


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    with ScriptedModels() as running:
        yield running


@pytest.fixture
def gateway(models: ScriptedModels, tmp_path: Path) -> Iterator[RunningGateway]:
    with RunningGateway(tmp_path / "workspace", models) as running:
        yield running
