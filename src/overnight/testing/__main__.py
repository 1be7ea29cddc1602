"""`python -m overnight.testing`: a server of scripted models until interrupted."""

import argparse
import contextlib
import threading

from overnight.testing.models import ScriptedModels, repeating


def main() -> None:
    """Serve from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m overnight.testing",
        description="Scripted models: they repeat what they are asked; `!fail 503` and `!tool NAME {}` do as told;"
        " asked for an experiment by the author `model`, they change a knob.",
    )
    parser.add_argument("--port", type=int, default=4200)
    with ScriptedModels(otherwise=repeating, port=parser.parse_args().port) as models:
        print(f"scripted models at {models.url}/v1", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
