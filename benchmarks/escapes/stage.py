"""What the attempts of the escape suite are aimed at: throw-away files, sockets, processes and memory of its own.

Nothing here is part of the machine: a temporary folder, listeners on loopback, one process, one shared memory segment.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_IPC_RMID, _IPC_CREAT = 0, 0o1000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p

VICTIM = "import sys, time\nprint('ready', flush=True)\ntime.sleep(600)\n"


@dataclass
class Stage:
    """Targets, and what the host sees of them.

    Attributes:
        token: what only the host knows; an attempt that prints it has read something that it must not.
        work: the writable mount.
        given: the read-only mount.
        outside: a folder that is not mounted.
        victim: a process with the token in its environment and arguments.
        received: what the UDP listener got.
    """

    token: str
    work: Path
    given: Path
    outside: Path
    victim: subprocess.Popen[bytes]
    tcp_port: int
    udp_port: int
    abstract: str
    shm_id: int
    shm_name: str
    queue: str
    received: list[bytes] = field(default_factory=list)

    def facts(self) -> dict[str, object]:
        """What an attempt is told."""
        return {
            "work": str(self.work),
            "given": str(self.given),
            "outside": str(self.outside),
            "secret": str(self.outside / "secret.txt"),
            "precious": str(self.outside / "precious.txt"),
            "victim": self.victim.pid,
            "harness": os.getpid(),
            "tcp_port": self.tcp_port,
            "udp_port": self.udp_port,
            "abstract": self.abstract,
            "shm_id": self.shm_id,
            "shm_name": self.shm_name,
            "queue": self.queue,
        }


def _serve(listener: socket.socket, token: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            client.sendall(token.encode())


def _collect(receiver: socket.socket, received: list[bytes]) -> None:
    while True:
        try:
            received.append(receiver.recv(100))
        except OSError:
            return


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A fresh stage, gone afterwards."""
    token = "token-" + secrets.token_hex(8)
    base = Path(tempfile.mkdtemp(prefix="overnight-stage-")).resolve()
    base.chmod(0o755)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, base, ignore_errors=True)
        work, given, outside = base / "work", base / "given", base / "outside"
        for folder in (work, given, outside):
            folder.mkdir()
        (outside / "secret.txt").write_text(token)
        (outside / "precious.txt").write_text("intact")
        (given / "input.txt").write_text("intact")
        os.utime(outside / "precious.txt", (1_000_000_000, 1_000_000_000))
        held = os.open(outside / "secret.txt", os.O_RDONLY)  # an open file of the harness
        cleanup.callback(os.close, held)

        listeners = [socket.create_server(("127.0.0.1", 0)), *(socket.socket(socket.AF_UNIX) for _ in range(3))]
        abstract = f"overnight-{token}"
        for listener, address in zip(
            listeners[1:], (f"\0{abstract}", str(outside / "socket"), str(work / "socket")), strict=True
        ):
            listener.bind(address)
            listener.listen()
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        for each in (*listeners, udp):
            cleanup.callback(each.close)
        received: list[bytes] = []
        for listener in listeners:
            cleanup.callback(listener.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=_serve, args=(listener, token), daemon=True).start()
        udp.settimeout(60)
        threading.Thread(target=_collect, args=(udp, received), daemon=True).start()

        shm_id = _libc.shmget(0, 4096, _IPC_CREAT | 0o600)
        if shm_id < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        cleanup.callback(_libc.shmctl, shm_id, _IPC_RMID, None)
        at = _libc.shmat(shm_id, None, 0)
        ctypes.memmove(at, token.encode() + b"\0", len(token) + 1)
        cleanup.callback(_libc.shmdt, ctypes.c_void_p(at))
        shm_name = f"overnight-{token}"
        Path("/dev/shm", shm_name).write_text(token)
        cleanup.callback(lambda: Path("/dev/shm", shm_name).unlink(missing_ok=True))

        queue = f"/overnight-{token}"
        mq = _libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        if mq < 0:
            raise OSError(ctypes.get_errno(), "mq_open")
        cleanup.callback(_libc.mq_unlink, queue.encode())
        cleanup.callback(os.close, mq)
        _libc.mq_send(mq, token.encode(), len(token), 0)

        victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", VICTIM, token],
            env={"TOKEN": token},
            cwd=outside,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        assert victim.stdout is not None
        victim.stdout.readline()
        cleanup.callback(victim.stdout.close)
        cleanup.callback(victim.wait)
        cleanup.callback(victim.kill)
        port, udp_port = listeners[0].getsockname()[1], udp.getsockname()[1]
        yield Stage(token, work, given, outside, victim, port, udp_port, abstract, shm_id, shm_name, queue, received)
