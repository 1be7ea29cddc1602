"""Every test of the kernel has a configuration folder of its own; none touches the user's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from overnight.store.database import Database
from overnight.testing.gate_bench import GateBench


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    monkeypatch.setenv("OVERNIGHT_CONFIG_DIR", str(folder))
    return folder


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "workspace" / ".overnight" / "overnight.db")


@pytest.fixture
def bench(tmp_path: Path, database: Database) -> Iterator[GateBench]:
    made = GateBench(tmp_path / "workspace", database)
    yield made
    made.parts.journal.close()
    database.close()
