"""What every isolated command sees of the machine: programs, libraries, a few harmless files of /etc, and the Python
installation that runs us. Never a home folder, /root, /var, /opt, /run or /sys as a whole.
"""

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

from overnight.core.errors import IsolationMissing

# Present on some systems only; each is readable by everybody and says nothing about people.
_ETC_FILES = ("ld.so.cache", "localtime")
_ETC_FOLDERS = ("alternatives",)
_ETC_TLS = ("ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls", "pki/ca-trust")
_ETC_NETWORK = ("resolv.conf", "hosts", "services", "protocols", "gai.conf")
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class System:
    """Read-only parts of the host.

    Attributes:
        binds: shown at their own paths, outer before inner.
        files: small files of /etc. bwrap copies them: a mount each costs a quarter of a millisecond more.
        symlinks: top-level links (`lib` to `usr/lib`), as (text, path).
        tls: certificates and settings that TLS clients look for; for commands that reach hosts.
        network: how names are looked up; for commands that share the network.
    """

    binds: tuple[str, ...]
    files: tuple[str, ...]
    symlinks: tuple[tuple[str, str], ...]
    tls: tuple[str, ...]
    network: tuple[str, ...]


def _existing(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"/etc/{name}" for name in names if Path("/etc", name).exists())


@functools.cache
def system() -> System:
    """The system as it is when first asked.

    Raises:
        IsolationMissing: our Python installation is a folder that would show a home folder or everything.
    """
    symlinks, tops = [], ["/usr"]
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            symlinks.append((str(path.readlink()).lstrip("/"), str(path)))
        elif path.is_dir():
            tops.append(str(path))
    pythons = [folder for folder in python_folders() if not folder.startswith("/usr/")]
    return System(
        binds=(*tops, *_existing(_ETC_FOLDERS), *pythons),
        files=_existing(_ETC_FILES),
        symlinks=tuple(symlinks),
        tls=_existing(_ETC_TLS),
        network=_existing(_ETC_NETWORK),
    )


@functools.cache
def python_folders() -> tuple[str, ...]:
    """Installations that `sys.executable` needs: each prefix, as it is named and as each symlink on the way names it.

    Raises:
        IsolationMissing: one of them is, or holds, a home folder.
    """
    folders = {sys.prefix, sys.base_prefix, sys.base_exec_prefix}
    link = Path(sys.executable)
    while link.is_symlink():
        link = link.parent / link.readlink()
        folders.add(str(link.parent.parent))
    folders |= {str(Path(folder).resolve()) for folder in folders}
    homes = {Path.home(), Path("/root"), Path("/home"), Path("/")}
    wanted = sorted(folder for folder in folders if folder != "/usr" and Path(folder).is_dir())
    for folder in wanted:
        if any(home.is_relative_to(folder) for home in homes):
            raise IsolationMissing(
                f"the Python installation at {folder} cannot be shown to commands without a home folder around it",
                hint="install Overnight into a virtual environment of its own: python3 -m venv .venv",
            )
    return tuple(wanted)
