"""The live view: what a person sees on a terminal while a run works."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = (
    "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\nGo.\n"
)


def test_ctrl_c_is_answered_above_the_table_which_stays_whole(tmp_path: Path) -> None:
    (tmp_path / "program.md").write_text(PROGRAM)
    (tmp_path / "art.py").write_text("X = 3.0  # knob: 0..10\n")
    (tmp_path / "evaluate.py").write_text("import art\nprint('score:', -abs(art.X - 7))\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "overnight", "run", str(tmp_path), "--experiments", "5000", "--run", "one"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    # Where tests are started in the background SIGINT is ignored, and a child would inherit that.
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:  # fmt: skip
        os.close(theirs)
        said = b""
        asked = False
        try:
            while part := os.read(ours, 65536):
                said += part
                if not asked and b"discard" in said:
                    os.kill(running.pid, signal.SIGINT)
                    asked = True
        except OSError:  # Linux says so when the last writer has gone
            pass
        assert running.wait(60) == 0, said[-2000:].decode()
    os.close(ours)
    text = said.decode()
    assert asked and text.count("stopping: what has been measured") == 1
    # Whoever writes past the view moves the cursor under it, and the next frame leaves half of the last one behind.
    assert "\n\nstopping" not in text.replace("\r", "")
    assert "go on with: overnight resume one" in text
