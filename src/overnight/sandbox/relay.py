"""Carries connections out of a network namespace; run inside as `python -I -S relay.py SOCKET PORT PROGRAM ARGUMENT…`.

It listens at 127.0.0.1:PORT, leaves a child that forwards each connection to the UNIX socket SOCKET (see egress.py),
and becomes PROGRAM.
"""

import os
import socket
import sys
import threading
from collections.abc import Sequence


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            end.close()


def _carry(listener: socket.socket, path: str) -> None:
    while True:
        client, _ = listener.accept()
        proxy = socket.socket(socket.AF_UNIX)
        try:
            proxy.connect(path)
        except OSError:
            client.close()
            continue
        for pair in ((client, proxy), (proxy, client)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def main(arguments: Sequence[str]) -> int:
    """Become the program; 127 if there is none, 126 if it cannot be started."""
    path, port, *argv = arguments
    listener = socket.create_server(("127.0.0.1", int(port)))
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)  # the command's streams end with the command
        _carry(listener, path)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {os.strerror(error.errno or 0)}\n".encode(errors="surrogateescape"))
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
