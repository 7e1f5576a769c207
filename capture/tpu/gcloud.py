"""Runs or prints gcloud's TPU commands, and reports their failures."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TypeVar

import msgspec

from xlahouse.capture.errors import CaptureError

Resource = TypeVar("Resource", bound=msgspec.Struct)

# States of a spot TPU VM after its preemption.
GONE = frozenset({"SUSPENDING", "SUSPENDED", "PREEMPTED", "TERMINATED"})


@dataclass(frozen=True)
class Gcloud:
    """gcloud for the TPUs of one zone."""

    zone: str  # such as us-east1-d
    project: str | None = None  # None: gcloud's own
    # called with each command that changes or fetches something, before it runs
    show: Callable[[str], None] = lambda line: None
    dry: bool = False  # commands are shown and not run

    def command(self, *words: str) -> list[str]:
        """A complete command line: `gcloud compute tpus …` with zone and project."""
        return self._for_project("compute", "tpus", *words, f"--zone={self.zone}")

    def _for_project(self, *words: str) -> list[str]:
        line = ["gcloud", *words, "--quiet"]
        return [*line, f"--project={self.project}"] if self.project else line

    def run(self, *words: str) -> None:
        """Run a command on TPUs.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        self._run(self.command(*words), words)

    def set_up(self, *words: str) -> None:
        """Run a command on the project: `gcloud …` without a zone.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        self._run(self._for_project(*words), words)

    def _run(self, line: list[str], words: Sequence[str]) -> None:
        self.show(shlex.join(line))
        if not self.dry:
            _output_of(line, words)

    def follow(self, listen: Callable[[str], None], *words: str) -> None:
        """Run a long command, and pass each line of its output to `listen`.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        line = self.command(*words)
        self.show(shlex.join(line))
        if self.dry:
            return
        _require_gcloud()
        said: deque[str] = deque(maxlen=100)
        merged = subprocess.STDOUT
        with subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=merged, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for text in process.stdout:
                said.append(text)
                listen(text.rstrip())
        if process.returncode:
            raise CaptureError(failure(words, "".join(said)))

    def describe(self, kind: str, name: str, form: type[Resource]) -> Resource | None:
        """A `queued-resources` or `tpu-vm` resource; None if no resource has that name.

        The command is not shown, as it changes nothing; a dry run returns a `form` without values.

        Raises:
            CaptureError: gcloud failed for another reason.
        """
        if self.dry:
            return form()
        words = (kind, "describe", name, "--format=json")
        try:
            printed = _output_of(self.command(*words), words)
        except CaptureError as error:
            if "NOT_FOUND" in str(error) or "not found" in str(error):
                return None
            raise
        try:
            return msgspec.json.decode(printed, type=form)
        except msgspec.ValidationError as error:
            raise CaptureError(
                f"gcloud describes {name} in an unknown form: {error}; update gcloud"
            ) from error
        except msgspec.DecodeError as error:
            raise CaptureError(
                f"gcloud's description of {name} is not JSON; update gcloud"
            ) from error

    def save(self, file: IO[bytes], *words: str) -> None:
        """Run a command and write its output to a file.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        line = self.command(*words)
        self.show(shlex.join(line))
        if self.dry:
            return
        _require_gcloud()
        done = subprocess.run(line, stdout=file, stderr=subprocess.PIPE)
        if done.returncode:
            raise CaptureError(failure(words, done.stderr.decode(errors="replace")))


def _output_of(line: list[str], words: Sequence[str]) -> str:
    """Run a command and return its output."""
    _require_gcloud()
    done = subprocess.run(line, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise CaptureError(failure(words, done.stderr or done.stdout))
    return done.stdout


def failure(words: Sequence[str], said: str) -> str:
    """One line for a failed command, with gcloud's own reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["it printed nothing"])[-1].removeprefix("ERROR:").strip()
    return f"gcloud {' '.join(words[:2])} failed: {reason}"


def _require_gcloud() -> None:
    if shutil.which("gcloud") is None:
        raise CaptureError(
            "gcloud is not on the PATH; install the Google Cloud CLI and run `gcloud auth login`, "
            "or print the commands with --dry-run"
        )
