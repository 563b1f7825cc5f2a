"""Warm start: commands of armscope in processes forked from one that has imported everything.

``python -P tests/warm.py serve SOCKET`` is that process. ``python -S tests/warm.py run SOCKET ARGUMENT…`` is the
command: it passes its arguments, folder, environment and open files on, and ends with the exit code that comes back.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

_LENGTH = 8


def serve(path: str) -> None:
    """Fork a process for each command."""
    from dashboard.commands import main  # noqa: PLC0415 - the part that takes long

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(16)
        while True:
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _play(caller, main)
            caller.close()


def _play(caller: socket.socket, main: Callable[[], None]) -> None:
    head, files, _, _ = socket.recv_fds(caller, _LENGTH, 3)
    arguments, folder, environment = json.loads(_received(caller, int(head)))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The old ones remember whether what they wrote to can be sought in.
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate("rww")
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["armscope", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        caller.sendall(bytes([code]))
        os._exit(code)


def run(path: str, *arguments: str) -> int:
    """Have a command done, and return its exit code."""
    body = json.dumps([arguments, str(Path.cwd()), dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [f"{len(body):0{_LENGTH}}".encode()], [0, 1, 2])
        server.sendall(body)
        answer = server.recv(1)
    return answer[0] if answer else 1


def _received(caller: socket.socket, length: int) -> bytes:
    pieces = b""
    while len(pieces) < length:
        pieces += caller.recv(length - len(pieces))
    return pieces


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(run(*sys.argv[2:]))
