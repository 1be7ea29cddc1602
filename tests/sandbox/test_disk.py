import os
from pathlib import Path

from overnight.sandbox.disk import DiskWatch

MIB = 1024 * 1024


def until_exceeded(watch: DiskWatch) -> bool:
    """Ask as a tick would, long enough for the walk that comes without a reason."""
    import time

    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if watch.exceeded():
            return True
        time.sleep(0.02)
    return False


def test_large_files(tmp_path: Path) -> None:
    watch = DiskWatch([str(tmp_path)], 4 * MIB, list)
    assert not watch.exceeded()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(os.urandom(6 * MIB))
    assert until_exceeded(watch)


def test_what_lies_within_the_limit_is_no_excess(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3 * MIB))
    watch = DiskWatch([str(tmp_path)], 4 * MIB, list)
    (tmp_path / "link").symlink_to("/usr")  # not followed
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 500 * MIB)  # takes no room
    import time

    for _ in range(60):
        assert not watch.exceeded()
        time.sleep(0.02)


def test_many_empty_files(tmp_path: Path) -> None:
    watch = DiskWatch([str(tmp_path)], MIB, list)
    for number in range(1100):
        (tmp_path / str(number)).touch()
    assert until_exceeded(watch)


def test_deleted_files_that_are_still_open(tmp_path: Path) -> None:
    watch = DiskWatch([str(tmp_path)], 4 * MIB, lambda: [os.getpid()])
    with (tmp_path / "file").open("wb", buffering=0) as file:
        (tmp_path / "file").unlink()
        file.write(os.urandom(8 * MIB))
        os.fsync(file.fileno())
        assert until_exceeded(watch)


def test_nothing_writable_is_nothing_to_watch() -> None:
    assert not DiskWatch([], 1, list).exceeded()
