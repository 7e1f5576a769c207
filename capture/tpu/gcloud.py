"""Runs gcloud's TPU commands, or only prints them, and says what its failures mean."""

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

# What is left of a spot TPU that was taken away.
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
        """Whether commands are printed only."""
        return self.show is not None

    def command(self, *words: str) -> list[str]:
        """A whole command line: `gcloud compute tpus …` in the zone and project."""
        line = ["gcloud", "compute", "tpus", *words, f"--zone={self.zone}", "--quiet"]
        return [*line, f"--project={self.project}"] if self.project else line

    def run(self, *words: str) -> str:
        """Run a command and return what it printed; a dry run prints the command and returns "".

        Raises:
            CaptureError: gcloud is missing or failed; holds its own last words.
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
        """Run a command that takes long, and pass on each line that it prints; a dry run prints it.

        Raises:
            CaptureError: gcloud is missing or failed; holds its own last words.
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
        """A `queued-resources` or `tpu-vm` resource; None where there is none of that name.

        A dry run gives a `form` without values.

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
                f"gcloud describes {name} in another form than is known: {error}; update gcloud"
            ) from error
        except msgspec.DecodeError as error:
            raise CaptureError(f"gcloud describes {name} in words that are not JSON") from error

    def save(self, file: IO[bytes], *words: str) -> None:
        """Run a command, not in a dry run, and write what it prints into a file.

        Raises:
            CaptureError: gcloud is missing or failed; holds its own last words.
        """
        _require_gcloud()
        line = self.command(*words)
        done = subprocess.run(line, stdout=file, stderr=subprocess.PIPE)
        if done.returncode:
            raise CaptureError(failure(words, done.stderr.decode(errors="replace")))


def failure(words: Sequence[str], said: str) -> str:
    """One line on a command that failed: which, and gcloud's own reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR:").strip()
    return f"gcloud {' '.join(words[:2])} failed: {reason}"


def _require_gcloud() -> None:
    if shutil.which("gcloud") is None:
        raise CaptureError(
            "gcloud is not on the PATH; install the Google Cloud CLI and run `gcloud auth login`, "
            "or see the commands with --dry-run"
        )
