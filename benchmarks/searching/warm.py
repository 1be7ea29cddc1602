"""Runs an example's program in a fork of this process: numpy and scikit-learn are imported once, not per evaluation."""

import contextlib
import importlib
import os
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 60


def load(*modules: str) -> None:
    """Import what the programs will import; what is not installed is theirs to miss."""
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def run(folder: Path, script: str, environment: Mapping[str, str]) -> str | None:
    """What `python script` prints in `folder`; None where it fails. Its processor time starts at zero, as a new process's."""
    with tempfile.TemporaryFile("w+") as out:
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.alarm(TIMEOUT_S)
                os.chdir(folder)
                os.environ.update(environment)
                os.dup2(out.fileno(), 1)
                sys.stdout = os.fdopen(1, "w")
                sys.path.insert(0, str(folder))
                sys.argv = [script]
                runpy.run_path(script, run_name="__main__")
                sys.stdout.flush()
                code = 0
            except SystemExit as ended:
                code = 1 if ended.code else 0
                sys.stdout.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            return None
        out.seek(0)
        return out.read()
