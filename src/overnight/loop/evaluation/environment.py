"""`setup:` of an arena: an environment built once, named by the hash of all that went into it, read-only ever after."""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from overnight.core.errors import ArenaError
from overnight.loop.arena.arena import Arena
from overnight.loop.evaluation.commands import arguments
from overnight.loop.evaluation.measured import INSIDE, Environment
from overnight.sandbox import Command, Limits, Mount, Sandbox

SETUP_TIMEOUT_S = 3600.0
_SPACE_BYTES = 32 * 1024**3
# Where pip and the system say which package index and which certificates to use; shown read-only to `setup` alone.
_PIP_SETTINGS = (
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "/etc/ssl",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PASSED = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", *_PROXIES)


def prepare(
    arena: Arena,
    files: Mapping[str, bytes],
    folder: Path,
    sandbox: Sandbox,
    say: Callable[[str], None] = lambda _: None,
) -> Environment:
    """The environment of `arena`: Overnight's own where there is no `setup`, else the one that `setup` builds.

    Args:
        arena: whose `setup` is run, in a sandbox with the network, in a virtual environment of its own.
        files: content of the arena's fixed, visible files; those that `setup` names are part of the hash.
        folder: where environments are kept, one subfolder for each hash.
        sandbox: where `setup` runs.
        say: told when a build begins.

    Raises:
        ArenaError: `setup` failed; its own words are in the message. Nothing half-built is left.
    """
    setup = arena.front.setup
    if not setup:
        return Environment.own()
    key = _key(setup, files)
    place = folder / key
    if not (place / "complete").exists():
        say(f"building the environment of {arena.name}: {setup}")
        folder.mkdir(parents=True, exist_ok=True)
        _build(setup, files, place, sandbox)
    return Environment(place / "bin", (Mount(place, str(place)),))


def _key(setup: str, files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(f"{setup}\0{sys.version}\0{platform.platform()}\0{sys.base_prefix}".encode())
    words = set(shlex.split(setup, comments=False, posix=True))
    for path in sorted(files):
        if path in words or path.startswith(("requirements", "pyproject.toml", "setup.", "uv.lock", "constraints")):
            digest.update(f"\0{path}\0".encode() + hashlib.sha256(files[path]).digest())
    return digest.hexdigest()[:20]


def _build(setup: str, files: Mapping[str, bytes], place: Path, sandbox: Sandbox) -> None:
    # Scripts of a virtual environment name its folder, so it is built in place; `complete` is what makes it valid.
    shutil.rmtree(place, ignore_errors=True)
    try:
        # Ours may be a virtual environment itself; its base is what every sandbox shows.
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        made = subprocess.run(
            [str(base if base.exists() else sys.executable), "-I", "-m", "venv", str(place)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if made.returncode != 0:
            raise ArenaError(
                f"cannot make a virtual environment: {(made.stderr or made.stdout).strip()[-500:]}",
                hint="on Debian: apt-get install python3-venv",
            )
        with tempfile.TemporaryDirectory(dir=place.parent) as checkout:
            for path, content in files.items():
                (Path(checkout) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(checkout) / path).write_bytes(content)
            inside = INSIDE if sandbox.remaps else checkout
            settings = [Path(path) for path in _PIP_SETTINGS] + [
                Path.home() / ".config/pip",
                Path.home() / ".pip",
            ]
            done = sandbox.run(
                Command(
                    argv=arguments(setup, {}),
                    cwd=inside,
                    env={
                        "PATH": f"{place / 'bin'}:/usr/local/bin:/usr/bin:/bin",
                        "HOME": str(Path.home()) if sandbox.remaps else checkout,
                        "LANG": "C.UTF-8",
                        "VIRTUAL_ENV": str(place),
                        "PIP_NO_INPUT": "1",
                        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                        **{name: value for name, value in os.environ.items() if name.startswith(_PASSED)},
                    },
                    mounts=(
                        Mount(Path(checkout), inside, writable=True),
                        Mount(place, str(place), writable=True),
                        *(Mount(path, str(path)) for path in settings if path.exists()),
                    ),
                    limits=Limits(wall_s=SETUP_TIMEOUT_S, memory_bytes=8 * 1024**3, pids=4096, disk_bytes=_SPACE_BYTES),
                    network=True,
                )
            )
        if not done.ok:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-1500:]
            raise ArenaError(
                f"setup failed ({done.describe()}): {setup}\n{said}",
                hint="run it by hand in the arena, then again here",
            )
        (place / "complete").write_text(setup)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
