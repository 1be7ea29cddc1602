"""Does a run survive what candidates do to it, and is every one recorded for what it was? A two-step arena.

Each candidate is one experiment of a `command` author that writes it. Limits are small and everything is inert: the
fork bomb, the memory and the disk it takes are bounded by the sandbox, in throw-away folders.

Usage: python benchmarks/survive.py [--sandbox bwrap|landlock]
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from overnight.loop.night import Limits
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

PROGRAM = """---
metric: score
direction: maximize
produce: python art.py
outputs: [out.txt]
score: python score.py
hidden: [score.py]
editable: [art.py]
budget: 1s
timeout: 3s
---
"""
SCORE = "print('score:', float(open('out.txt').read()))\n"
HONEST = "open('out.txt', 'w').write({value!r})\n"
# What a candidate does → what the record may say of it. `discard` where it handed over an honest, worse value first.
CANDIDATES: list[tuple[str, str, set[str]]] = [
    ("os._exit(0) before handing over", "import os\nos._exit(0)\n", {"crash"}),
    ("os._exit(1)", "import os\nos._exit(1)\n", {"crash"}),
    ("hangs", "while True: pass\n", {"timeout"}),
    ("sleeps for ever", "import time\ntime.sleep(1e6)\n", {"timeout"}),
    ("ignores SIGTERM and SIGINT", "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass\n", {"timeout"}),
    ("leaves a child that holds the pipes", "import subprocess, sys\nsubprocess.Popen(['sleep', '1000'])\n" + HONEST.format(value="0.5"), {"discard", "timeout"}),
    ("fork-bombs", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n", {"timeout", "crash"}),
    ("fills memory", "data = []\nwhile True: data.append(bytearray(1 << 26))\n", {"crash", "timeout"}),
    ("fills the disk with one file", "with open('big', 'wb') as f:\n    while True: f.write(b'x' * (1 << 24))\n", {"crash", "timeout"}),
    ("fills the disk with many files", "n = 0\nwhile True:\n    open(f'f{n}', 'wb').write(b'x' * (1 << 20)); n += 1\n", {"crash", "timeout"}),
    ("fills /tmp", "n = 0\nwhile True:\n    open(f'/tmp/f{n}', 'wb').write(b'x' * (1 << 22)); n += 1\n", {"crash", "timeout"}),
    ("floods stdout", "while True: print('score: 1e9 ' * 1000)\n", {"timeout", "crash"}),
    ("prints fake metrics", "print('METRIC score=1e9')\nprint('score: 1e9', flush=True)\n" + HONEST.format(value="0.5"), {"discard"}),
    ("writes a fake result file", "import os\nfor p in (os.environ.get('OVERNIGHT_RESULT'), '/overnight/result.json', 'result.json'):\n    try: open(p, 'w').write('{\"score\": 1e9}')\n    except (OSError, TypeError): pass\n" + HONEST.format(value="0.5"), {"discard"}),
    ("edits the evaluator", "for p in ('score.py', '/arena/score.py'):\n    try: open(p, 'w').write(\"print('score: 1e9')\")\n    except OSError: pass\n" + HONEST.format(value="0.5"), {"discard", "rejected"}),
    ("hands over a link to another file", "import os\nos.symlink('/etc/hostname', 'out.txt')\n", {"crash"}),
    ("hands over a device", "import os\nos.mkfifo('out.txt')\n", {"crash"}),
    ("hands over a huge file", "with open('out.txt', 'wb') as f: f.truncate(1 << 40)\n", {"crash", "timeout"}),
    ("hands over not a number", HONEST.format(value="nan"), {"crash"}),
    ("hands over infinity", HONEST.format(value="inf"), {"crash"}),
    ("kills its parent and everything else", "import os, signal\nfor p in range(1, 400):\n    if p != os.getpid():\n        try: os.kill(p, signal.SIGKILL)\n        except OSError: pass\n" + HONEST.format(value="0.5"), {"discard", "crash"}),
    ("takes its own write permission away", "import os\nos.mkdir('d')\nopen('d/x', 'w').write('1')\nos.chmod('d', 0o500)\n" + HONEST.format(value="0.5"), {"discard"}),
    ("dies by a signal", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", {"crash"}),
    ("raises", "raise RuntimeError('no')\n", {"crash"}),
    ("cannot be parsed", "def broken(:\n", {"crash"}),
    ("is honest and better", HONEST.format(value="2.0"), {"keep"}),
]  # fmt: skip
AUTHOR = """
import json, os
n = json.load(open(os.environ['OVERNIGHT_CONTEXT']))['experiment']
candidates = json.load(open(%r))
name, text = candidates[n - 1]
open('art.py', 'w').write(text)
open(os.environ['OVERNIGHT_HYPOTHESIS'], 'w').write(name)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandbox", choices=["bwrap", "landlock"], default="bwrap")
    chosen = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="overnight-survive-"))
    os.environ["OVERNIGHT_CONFIG_DIR"] = str(top / "config")
    try:
        arena = top / "arena"
        arena.mkdir()
        (arena / "program.md").write_text(PROGRAM)
        (arena / "art.py").write_text(HONEST.format(value="1.0"))
        (arena / "score.py").write_text(SCORE)
        author = top / "author"
        author.mkdir()
        (author / "candidates.json").write_text(json.dumps([(name, text) for name, text, _ in CANDIDATES]))
        (author / "author.py").write_text(AUTHOR % str(author / "candidates.json"))
        (arena / "overnight.toml").write_text(
            f'[authors.hostile]\ncommand = "python {author}/author.py"\nmounts = ["{author}"]\n'
        )
        began = time.monotonic()
        options = Options(Limits(len(CANDIDATES)), authors=("hostile",), workers=2, sandbox=chosen.sandbox)
        report = night.run(arena, options, "night", threading.Event())
        workspace = Workspace.of_arena(arena)
        experiments = workspace.record.experiments("night")
        workspace.database.close()
        untrue = {}
        for item in experiments[1:]:
            name, _, allowed = CANDIDATES[item.n - 1]
            print(f"{item.status:9} {name}: {item.reason[:100]}", file=sys.stderr)
            if item.status not in allowed:
                untrue[name] = f"{item.status}: {item.reason}"
        tampered = (arena / "score.py").read_text() != SCORE
        left = [path.name for path in (arena / ".overnight/checkouts").iterdir()]
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(
        json.dumps(
            {
                "benchmark": "survive",
                "sandbox": chosen.sandbox,
                "candidates": len(CANDIDATES),
                "recorded": len(experiments) - 1,
                "recorded_truthfully": len(CANDIDATES) - len(untrue),
                "untrue": untrue,
                "run_finished": report["state"] == "finished",
                "best": report["best"],
                "evaluator_changed": tampered,
                "checkouts_left": left,
                "seconds": round(time.monotonic() - began, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
