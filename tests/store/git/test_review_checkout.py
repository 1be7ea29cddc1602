"""A checkout is removed whatever the programs in it did to its permissions."""

import os
import tempfile
from pathlib import Path

from overnight.store.git.checkout import remove

_NOBODY = 65534


def _removed(folder: Path) -> bool:
    """`remove`, by a throw-away user where we are root: nothing stops root."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        (folder / "a/b/c").mkdir(parents=True)
        (folder / "a/b/c/file").write_text("x")
        (folder / "a/out").symlink_to(folder.parent / "kept")
        for place, mode in (("a/b/c", 0), ("a/b", 0o500), ("a", 0o555), ("", 0)):
            os.chmod(folder / place, mode)
        remove(folder)
        os._exit(1 if os.path.lexists(folder) else 0)
    finally:
        os._exit(2)


def test_folders_without_permissions_go_and_nothing_else() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        os.chmod(outer, 0o777)
        kept = Path(outer, "kept")
        kept.mkdir(mode=0o500)
        (kept / "file").write_text("x") if os.getuid() == 0 else None
        assert _removed(Path(outer, "checkout"))
        assert kept.stat().st_mode & 0o777 == 0o500


def test_what_is_not_there_or_is_a_link_is_left(tmp_path: Path) -> None:
    remove(tmp_path / "nothing")
    (tmp_path / "kept").mkdir(mode=0o500)
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove(tmp_path / "link")
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o500
