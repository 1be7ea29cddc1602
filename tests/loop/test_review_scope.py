"""What an author makes unreadable is its own violation, not a failure of ours."""

import os
import tempfile
from pathlib import Path

import pytest

from overnight.loop.arena.arena import Paths
from overnight.loop.scope import compare

_NOBODY = 65534


@pytest.mark.parametrize("place", ["art.py", "lib", "."])
def test_unreadable_is_rejected(place: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        os.chmod(outer, 0o777)
        folder = Path(outer, "checkout")
        child = os.fork()
        if not child:
            try:
                if os.getuid() == 0:  # nothing is unreadable for root
                    os.setgroups([])
                    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
                (folder / "lib").mkdir(parents=True)
                (folder / "art.py").write_text("X = 1\n")
                os.chmod(folder / place, 0)
                change = compare(folder, {"art.py": b"X = 1\n"}, {"art.py": "100644"}, Paths(["art.py"]), Paths([]))
                os._exit(0 if any("unreadable" in said for said in change.violations) else 1)
            finally:
                os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if os.getuid() != 0:
            os.chmod(folder, 0o700)
        assert code == 0
