"""What the harness costs per experiment: isolation on, everything recorded, against starting the evaluator by hand.

The evaluator is trivial (it prints a number), so all that is measured is ours: proposal, scope, git, sandbox, judge,
record. "By hand" is `subprocess.run` of the same interpreter on the same file, interleaved with the run in time (before,
in the middle, after). The same artifact is evolved by OpenEvolve with a scripted model that answers at once, two workers
against two workers.

Usage: python benchmarks/harness.py [--experiments 1000] [--no-peer]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from overnight.loop.night import Limits
from overnight.loop.start import Options
from overnight.workspace import night
from overnight.workspace.workspace import Workspace

FILES = {
    "program.md": """---
metric: score
direction: maximize
evaluate: python evaluate.py
editable: [art.py]
budget: 5s
---
""",
    "art.py": "X = 3.0  # knob: 0..10\nY = 2.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -((art.X - 7) ** 2) - (art.Y - 4) ** 2)\n",
}


def by_hand(folder: Path, times: int) -> list[float]:
    """Milliseconds of starting the evaluator, each."""
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "evaluate.py"], cwd=folder, env=environment, capture_output=True, check=True)
        took.append((time.perf_counter() - began) * 1000)
    return took


def spend(folder: Path, experiments: int, workers: int, name: str) -> tuple[float, list[float]]:
    """Milliseconds per experiment of a whole run, and the moments at which experiments were closed."""
    workspace = Workspace.of_arena(folder)
    began = time.perf_counter()
    night.run(
        folder, Options(Limits(experiments), workers=workers, seed=1), name, threading.Event(), workspace=workspace
    )
    whole_ms = (time.perf_counter() - began) * 1000 / experiments
    ended = sorted(item.at for item in workspace.record.experiments(name))
    workspace.database.close()
    return whole_ms, ended


def windows(ended: list[float], size: int) -> list[float]:
    """Mean milliseconds per experiment of each stretch of `size`."""
    return [(ended[at + size] - ended[at]) * 1000 / size for at in range(0, len(ended) - size, size)]


PEER = """
import asyncio, json, sys, time
from pathlib import Path
folder, iterations, url = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
from openevolve import OpenEvolve
from openevolve.config import Config, LLMModelConfig
import peer_model
config = Config()
config.max_iterations = iterations
config.checkpoint_interval = iterations * 10
config.diff_based_evolution = False
config.evaluator.parallel_evaluations = 2
config.evaluator.cascade_evaluation = False
config.evaluator.max_retries = 0
config.log_level = "ERROR"
if url:
    config.llm.models = [LLMModelConfig(name="scripted", weight=1.0, api_base=url, api_key="none")]
    config.llm.update_model_params({"temperature": 0.7, "max_tokens": 4096, "timeout": 60, "retries": 3, "retry_delay": 5})
else:
    config.llm.models = [LLMModelConfig(name="scripted", init_client=peer_model.make)]
config.llm.evaluator_models = config.llm.models
evolve = OpenEvolve(str(folder / "initial.py"), str(folder / "evaluator.py"), config=config, output_dir=str(folder / "out"))
began = time.perf_counter()
best = asyncio.run(evolve.run(iterations=iterations))
took = time.perf_counter() - began
print(json.dumps({"seconds": took, "iterations": iterations, "programs": len(evolve.database.programs)}))
"""
PEER_MODEL = """
import random

class Scripted:
    model = "scripted"
    weight = 1.0
    async def generate(self, prompt, **kwargs):
        return await self.generate_with_context("", [])
    async def generate_with_context(self, system_message, messages, **kwargs):
        return "```python\\nX = %r\\nY = %r\\n```" % (random.uniform(0, 10), random.uniform(0, 10))

def make(config):
    return Scripted()
"""
PEER_EVALUATOR = """
def evaluate(path):
    scope = {}
    exec(open(path).read(), scope)
    return {"combined_score": -((scope["X"] - 7) ** 2) - (scope["Y"] - 4) ** 2}
"""


def peer(folder: Path, iterations: int, python: str, url: str = "") -> dict[str, Any]:
    """OpenEvolve's milliseconds per iteration with two workers, evaluating in its own worker processes as it does.

    Its model is asked over HTTP at `url`, as a user of it would; without one it is a function in its process, which
    answers at once.
    """
    folder.mkdir()
    (folder / "initial.py").write_text("# EVOLVE-BLOCK-START\nX = 3.0\nY = 2.0\n# EVOLVE-BLOCK-END\n")
    (folder / "evaluator.py").write_text(PEER_EVALUATOR)
    (folder / "peer_model.py").write_text(PEER_MODEL)
    (folder / "peer.py").write_text(PEER)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [python, "peer.py", str(folder), str(iterations), url],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"failed": done.stderr[-400:]}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**told, "ms_per_iteration": told["seconds"] * 1000 / iterations}


def both_peers(folder: Path, iterations: int, python: str) -> dict[str, dict[str, Any]]:
    """OpenEvolve with its model over the wire, from a server in a process of its own, and with one that is a function."""
    folder.mkdir()
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        return {
            "model_over_http": peer(folder / "http", iterations, python, url),
            "model_in_process": peer(folder / "inside", iterations, python),
        }
    finally:
        server.kill()
        server.wait()


SERVER = """
import random, threading
from overnight.testing.models import ScriptedModels
from overnight.testing.script import say
def answer(request):
    return say("```python\\nX = %r\\nY = %r\\n```" % (random.uniform(0, 10), random.uniform(0, 10)))
with ScriptedModels(otherwise=answer) as models:
    print(models.url + "/v1", flush=True)
    threading.Event().wait()
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has openevolve")
    chosen = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="overnight-harness-"))
    os.environ["OVERNIGHT_CONFIG_DIR"] = str(top / "config")
    try:
        for name in ("one", "two"):
            (top / name).mkdir()
            for path, text in FILES.items():
                (top / name / path).write_text(text)
        hand = by_hand(top / "one", 60)
        one_ms, ended = spend(top / "one", chosen.experiments, 1, "one")
        hand += by_hand(top / "one", 60)
        two_ms, _ = spend(top / "two", chosen.experiments, 2, "two")
        hand += by_hand(top / "one", 60)
        hundreds = windows(ended, min(100, chosen.experiments // 4))
        other = {} if chosen.no_peer else both_peers(top / "peer", min(300, chosen.experiments), chosen.peer_python)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    hand_ms = statistics.median(hand)
    print(
        json.dumps(
            {
                "benchmark": "harness",
                "experiments": chosen.experiments,
                "by_hand_ms": round(hand_ms, 2),
                "by_hand_quartiles_ms": [round(value, 2) for value in statistics.quantiles(hand, n=4)],
                "one_worker_ms": round(one_ms, 2),
                "one_worker_ratio": round(one_ms / hand_ms, 3),
                "two_workers_ms": round(two_ms, 2),
                "two_workers_ratio": round(two_ms / hand_ms, 3),
                "first_hundred_ms": round(hundreds[0], 2),
                "last_hundred_ms": round(hundreds[-1], 2),
                "last_over_first": round(hundreds[-1] / hundreds[0], 3),
                "openevolve": other,
            }
        )
    )


if __name__ == "__main__":
    main()
