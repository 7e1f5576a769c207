"""The profiler of a capture: a session whose trace is checked, markers, and scopes."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import SERVER_STEP

if TYPE_CHECKING:
    import torch

PORT_ATTEMPTS = 5
SERVER_STATS = ("request_id", "request_tokens", "prompt_tokens")  # of a server's step, with a place


def marker(name: str, request: int, step: int | None = None) -> AbstractContextManager[object]:
    """A step trace (`_r=1`) in the marker grammar; a request's marker has no `step_num`.

    A bare TraceMe, not torch_xla's StepTrace: StepTrace pushes a scope, which puts the marker's
    name into every HLO op_name and forbids torch_xla.sync() while the marker is open.
    """
    import torch_xla

    step_num = {} if step is None else {"step_num": step}
    trace: AbstractContextManager[object] = torch_xla._XLAC.profiler.TraceMe(
        name, _r=1, request=request, **step_num
    )
    return trace


def server_marker(turns: Sequence[tuple[int, int, int]]) -> AbstractContextManager[object]:
    """A server's step in the marker grammar; `turns`: request, its tokens, and these of its prompt."""
    import torch_xla

    stats = {
        f"{stat}{place}": value
        for place, turn in enumerate(turns, 1)
        for stat, value in zip(SERVER_STATS, turn, strict=True)
    }
    name = SERVER_STEP.format(requests=len(turns), tokens=sum(tokens for _, tokens, _ in turns))
    trace: AbstractContextManager[object] = torch_xla._XLAC.profiler.TraceMe(name, _r=1, **stats)
    return trace


def add_scopes(
    model: torch.nn.Module,
    patterns: tuple[str, ...],
    named: Callable[[str], str | None] = lambda path: path,
) -> list[str]:
    """Open a scope in every forward of the modules whose path matches; returns the scopes' names.

    `*` in a pattern is one segment of a path; `named` maps a path to its scope's name, or None for
    no scope. Scopes reach host events and, with XLA_IR_DEBUG, HLO op_names. They close with the
    forward, so before torch_xla.sync().
    """
    import torch_xla.debug.profiler as xp

    wanted = [
        re.compile("[^.]+".join(re.escape(part) for part in pattern.split("*")))
        for pattern in patterns
    ]
    paths = []
    for path, module in model.named_modules():
        name = named(path)
        if path and name and any(pattern.fullmatch(path) for pattern in wanted):
            _trace_forward(module, name, xp.Trace)
            paths.append(name)
    return paths


def _trace_forward(
    module: torch.nn.Module, path: str, trace: Callable[[str], AbstractContextManager[object]]
) -> None:
    """Open a scope before the module's other hooks and close it after them."""
    opened: list[AbstractContextManager[object]] = []

    def enter(_module: torch.nn.Module, _inputs: object) -> None:
        opened.append(trace(path))
        opened[-1].__enter__()

    def leave(_module: torch.nn.Module, _inputs: object, _output: object) -> None:
        opened.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(enter, prepend=True)
    module.register_forward_hook(leave, always_call=True)


def start_server() -> object:
    """Start torch_xla's profiler server on a free port; it runs as long as the returned object lives.

    Raises:
        CaptureError: another process took every port that was tried.
    """
    import torch_xla.debug.profiler as xp

    for _ in range(PORT_ATTEMPTS):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        try:
            return xp.start_server(port)
        except RuntimeError as error:
            busy = error
    raise CaptureError(f"the profiler found no free port in {PORT_ATTEMPTS} attempts: {busy}")


@contextmanager
def session(folder: Path, on_stop: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Profile the block; the session is under `folder`/plugins/profile.

    on_stop is called after the block, before the profiler stops, which may hang.

    Raises:
        CaptureError: the profiler wrote no xplane, or an empty one.
    """
    import torch_xla.debug.profiler as xp

    server = start_server()
    xp.start_trace(str(folder))
    try:
        yield
    finally:
        on_stop()
        xp.stop_trace()
        del server
    check_session(folder)


def check_session(folder: Path) -> None:
    """Refuse a session with a missing or empty xplane: the profiler reports success even then.

    Raises:
        CaptureError: it is missing or empty.
    """
    planes = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    if not planes:
        raise CaptureError(f"{folder}: the profiler wrote no xplane; is the disk full?")
    for plane in planes:
        if not plane.stat().st_size:
            raise CaptureError(
                f"{plane}: the profiler wrote an empty xplane (a trace is above 2 GiB); "
                "lower `profiled_steps` or `requests` in the plan"
            )
