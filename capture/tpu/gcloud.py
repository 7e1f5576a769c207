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
    # called with each command of a dry run; None: run them
    show: Callable[[str], None] | None = None

    @property
    def dry(self) -> bool:
        """Whether commands are only printed."""
        return self.show is not None

    def command(self, *words: str) -> list[str]:
        """A complete command line: `gcloud compute tpus …` with zone and project."""
        line = ["gcloud", "compute", "tpus", *words, f"--zone={self.zone}", "--quiet"]
        return [*line, f"--project={self.project}"] if self.project else line

    def run(self, *words: str) -> str:
        """Run a command and return its output; a dry run prints the command and returns "".

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        line = self.command(*words)
        if self.show is not None:
            self.show(shlex.join(line))
            return ""
        _require_gcloud()
        done = subprocess.run(line, capture_output=True, text=True, errors="replace")
        if done.returncode:
            raise CaptureError(failure(words, done.stderr or done.stdout))
        return done.stdout

    def follow(self, listen: Callable[[str], None], *words: str) -> None:
        """Run a long command, and pass each line of its output to `listen`; a dry run prints it.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        line = self.command(*words)
        if self.show is not None:
            self.show(shlex.join(line))
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

        A dry run returns a `form` without values.

        Raises:
            CaptureError: gcloud failed for another reason.
        """
        try:
            printed = self.run(kind, "describe", name, "--format=json")
        except CaptureError as error:
            if "NOT_FOUND" in str(error) or "not found" in str(error):
                return None
            raise
        if self.dry:
            return form()
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
        """Run a command and write its output to a file; not for a dry run.

        Raises:
            CaptureError: gcloud is missing or failed; has gcloud's own reason.
        """
        _require_gcloud()
        line = self.command(*words)
        done = subprocess.run(line, stdout=file, stderr=subprocess.PIPE)
        if done.returncode:
            raise CaptureError(failure(words, done.stderr.decode(errors="replace")))


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
