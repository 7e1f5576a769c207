"""Starts captures from a process that has imported torch: small captures take no longer than imports.

`python -m xlahouse.capture.run.warm FD` waits at a socket. For each message, with three open files (job,
notes and log), it forks a child that captures one experiment; it answers with the child's number and then
with its exit status.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import traceback
from typing import IO

from xlahouse.capture.run.job import without_jax

COMMAND = (sys.executable, "-m", "xlahouse.capture.run.warm")
_NUMBER = 4  # bytes of a process number or an exit status


class WarmProcess:
    """A process that has imported what captures need. It starts with the first child, and again after
    it was ended; it ends with this one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self, stderr: IO[bytes]) -> Forked:
        """Fork a child that reads a job, as capture/run/experiment.py does.

        Raises:
            OSError: the process ended meanwhile.
        """
        ours = self._connect()
        job, to_child = os.pipe()
        from_child, notes = os.pipe()
        try:
            socket.send_fds(ours, [b"."], [job, notes, stderr.fileno()])
        finally:
            os.close(job)
            os.close(notes)
        return Forked(ours, os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb"))

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def _connect(self) -> socket.socket:
        """The socket to the process, which is started where none runs."""
        running = self._process is not None and self._process.poll() is None
        if self._socket is None or self._socket.fileno() < 0 or not running:
            self._end()
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    (*COMMAND, str(theirs.fileno())),
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        return self._socket

    def _end(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


class Forked:
    """A child of the warm process, with what subprocess.Popen has of it."""

    def __init__(self, answers: socket.socket, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None  # None while it runs
        self._answers = answers
        # A number could be another process's by the time of a kill: its parent waits for it elsewhere.
        self._process: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            self._process = os.pidfd_open(self._answer())

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        try:
            self.returncode = os.waitstatus_to_exitcode(self._answer())
        finally:
            if self._process is not None:
                os.close(self._process)
                self._process = None

    def _answer(self) -> int:
        found = self._answers.recv(_NUMBER, socket.MSG_WAITALL)
        if len(found) < _NUMBER:
            self._answers.close()  # the next child needs another process
            raise OSError("the process that starts captures has ended; run the command again")
        return int.from_bytes(found, "little")


def serve(requests: socket.socket) -> None:
    """Fork a child for each request, one after the other, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides which child ends
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1, 3)
        if not message:
            return
        child = os.fork()
        if not child:
            requests.close()
            _capture(files)
        for file in files:
            os.close(file)
        requests.sendall(child.to_bytes(_NUMBER, "little"))
        _, status = os.waitpid(child, 0)
        requests.sendall(status.to_bytes(_NUMBER, "little"))


def _capture(files: list[int]) -> None:
    """Be the child: stdin, stdout and stderr are the request's files."""
    from xlahouse.capture.run import experiment

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    code = 1
    try:
        code = experiment.main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _import_all() -> None:
    """What captures import. Nothing here may start the runtime, which reads its variables once."""
    without_jax()
    # torch_xla reads these two when it is imported.
    os.environ |= {"XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
    # torch's threads read this when they start. They would wait for each other in a loop, on the cores
    # that the virtual devices need: a third of the CPU time of the demo's captures.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch_xla.debug.profiler
    import torch_xla.distributed.spmd  # noqa: F401
    import transformers

    from xlahouse.capture.models import decode, families, server, sharded  # noqa: F401
    from xlahouse.capture.run import record, reference, serving, sources  # noqa: F401

    for family in families.FAMILIES.values():
        getattr(transformers, family.model_class)
    gc.freeze()  # modules stay: no child looks through them


if __name__ == "__main__":
    # A package that is missing or damaged is the child's to report.
    with contextlib.suppress(Exception):
        _import_all()
    serve(socket.socket(fileno=int(sys.argv[1])))
