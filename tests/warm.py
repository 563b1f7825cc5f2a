"""Warm start: programs in processes forked from one that has imported everything.

``python -P tests/warm.py serve CODE`` is that process. It runs the code, writes the path of its socket, and ends with
its standard input.
``python -S tests/warm.py run SOCKET ARGUMENT…`` is the command armscope, and ``run SOCKET -c CODE ARGUMENT…`` other
code. It passes its arguments, folder, environment and open files on, and ends as the forked process ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

_LENGTH = 8
_ARMSCOPE = "from dashboard.launch import main; main()"
_LOADED = (
    "alembic.command",
    "core.doors.story",
    "core.explained",
    "core.flows.export",
    "core.flows.importing",
    "core.flows.launch",
    "core.flows.maintenance",
    "core.flows.queries",
    "core.flows.select",
    "core.installed.settings_file",
    "dashboard.launch",
    "dashboard.commands",
    "pydantic.type_adapter",
    "scipy.special",
    "shellingham",
)
"""Modules that commands load when they need them: that takes longer than what most of them do."""


def serve(begin: str) -> bool:
    """Fork a process for each command, and return true in there, with its code first among the arguments."""
    import gc  # noqa: PLC0415 - who runs a command waits for none of these
    import importlib  # noqa: PLC0415
    import select  # noqa: PLC0415
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    for name in _LOADED:
        importlib.import_module(name)
    exec(begin)
    gc.collect()
    gc.freeze()
    callers: dict[int, socket.socket] = {}

    def report(*_: object) -> None:
        while callers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with callers.pop(pid) as caller:
                caller.send(str(os.waitstatus_to_exitcode(status)).encode(), socket.MSG_NOSIGNAL)

    signal.signal(signal.SIGCHLD, report)
    folder = tempfile.mkdtemp(prefix="armscope-warm-")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/socket")
        listening.listen(64)
        os.write(1, f"{folder}/socket\n".encode())
        while listening.fileno() in select.select([listening.fileno(), 0], [], [])[0]:
            caller, _ = listening.accept()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            callers[pid := os.fork()] = caller
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            if pid == 0:
                _take_over(caller)
                return True
    shutil.rmtree(folder)
    return False


def _take_over(caller: socket.socket) -> None:
    head, files, _, _ = socket.recv_fds(caller, _LENGTH, 3)
    arguments, folder, environment = json.loads(_received(caller, int(head)))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The old ones remember whether what they wrote to can be sought in.
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout = (
        os.fdopen(number, "rw"[number], encoding=encoding, closefd=False) for number in (0, 1)
    )
    sys.stderr = os.fdopen(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = arguments[1:] if arguments[:1] == ["-c"] else [_ARMSCOPE, *arguments]
    caller.sendall(f"{os.getpid():0{_LENGTH}}".encode())
    caller.close()


def run(path: str, *arguments: str) -> int:
    """Have a command done, and return its exit code or, negative, the signal that killed it."""
    body = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109 - loaded in no time
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [f"{len(body):0{_LENGTH}}".encode()], [0, 1, 2])
        server.sendall(body)
        pid = int(_received(server, _LENGTH))
        signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
        return int(server.recv(_LENGTH))


def _received(caller: socket.socket, length: int) -> bytes:
    pieces = b""
    while len(pieces) < length:
        pieces += caller.recv(length - len(pieces))
    return pieces


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        if not serve(sys.argv[2]):
            os.killpg(0, signal.SIGKILL)
        program = compile(sys.argv[0], "<string>", "exec")
        sys.argv[0] = "armscope"
        exec(program, {"__name__": "__main__"})
    elif (code := run(*sys.argv[2:])) < 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    else:
        sys.exit(code)
