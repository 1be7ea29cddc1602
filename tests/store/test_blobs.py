import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overnight.core.errors import NotFound, StoreError
from overnight.store.blobs import Blobs


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary() | st.integers(0, 20_000).map(lambda size: b"ab" * size))
def test_what_is_put_is_got(tmp_path: Path, content: bytes) -> None:
    blobs = Blobs(tmp_path / "blobs")
    blob_id = blobs.put(content)
    assert blob_id == hashlib.sha256(content).hexdigest() == blobs.put(content)
    assert blobs.exists(blob_id) and blobs.get(blob_id) == content
    assert 1 <= blobs.size_bytes(blob_id) <= len(content) + 1
    assert blob_id in blobs.ids()
    assert not list(tmp_path.rglob("tmp-*"))


def test_text_is_packed_and_noise_is_not(tmp_path: Path) -> None:
    blobs, noise = Blobs(tmp_path), os.urandom(10_000)
    assert blobs.size_bytes(blobs.put(b"the same line\n" * 1000)) < 500
    assert blobs.size_bytes(blobs.put(noise)) == 10_001


def test_damage_is_an_error(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    for content in (b"small", b"large " * 2000):
        blob_id = blobs.put(content)
        path = tmp_path / blob_id[:2] / blob_id[2:]
        stored = path.read_bytes()
        for damage in (stored[:-1], stored[:1], b"\x02" + stored[1:], stored[:-1] + bytes([stored[-1] ^ 1]), b"\x01"):
            path.write_bytes(damage)
            with pytest.raises(StoreError, match="damaged"):
                blobs.get(blob_id)
        # What a power cut leaves is written over.
        path.write_bytes(b"")
        assert not blobs.exists(blob_id)
        assert blobs.get(blobs.put(content)) == content


def test_missing_and_deleted(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    assert list(blobs.ids()) == [] and not blobs.exists("0" * 64)
    blob_id = blobs.put(b"x")
    blobs.delete(blob_id)
    blobs.delete(blob_id)
    for read in (blobs.get, blobs.size_bytes):
        with pytest.raises(NotFound):
            read(blob_id)
    for wrong in ("", "../../etc/passwd", "0" * 63, "A" * 64, "0" * 64 + "\n"):
        with pytest.raises(NotFound, match="not a blob id"):
            blobs.get(wrong)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file is in the way")
    with pytest.raises(StoreError, match="cannot write blob"):
        Blobs(tmp_path / "blobs").put(b"x")


def test_the_same_content_from_many_threads(tmp_path: Path) -> None:
    blobs, content = Blobs(tmp_path), b"shared " * 5000
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.append(blobs.put(content))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 16 and blobs.get(ids[0]) == content and list(blobs.ids()) == [ids[0]]
