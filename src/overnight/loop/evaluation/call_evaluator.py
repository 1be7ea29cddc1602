"""Runs inside the sandbox, by source, under the arena's own Python: calls `file.py:function` with the artifact's path.

The numbers it returns go to $OVERNIGHT_RESULT. Standard library only; imports nothing of Overnight.
It takes what OpenEvolve's evaluators return: a dict, or an object with `metrics`.
"""

import importlib.util
import json
import os
import sys


def _plain(value: object, depth: int = 0) -> object:
    if isinstance(value, dict) and depth < 3:
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    try:
        return float(value)  # type: ignore[arg-type]  # numpy's numbers, among others
    except Exception:
        return repr(value)[:200]


def _main(path: str, function: str, artifact: str) -> None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv = [path, artifact]
    spec = importlib.util.spec_from_file_location("evaluator", path)
    if spec is None or spec.loader is None:
        sys.exit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    returned = getattr(module, function)(artifact)
    metrics = returned if isinstance(returned, dict) else getattr(returned, "metrics", None)
    if not isinstance(metrics, dict):
        sys.exit(f"{path}:{function} returned {type(returned).__name__}, not a dict or an object with metrics")
    with open(os.environ["OVERNIGHT_RESULT"], "w") as result:
        json.dump(_plain(metrics), result)


_main(*sys.argv[1:4])
