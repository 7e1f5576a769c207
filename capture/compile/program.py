"""Compiles one program in a subprocess, or takes it from the cache."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.lower import CACHE as DONATED
from xlahouse.capture.compile.refusal import DoesNotFitError, refusal_error
from xlahouse.capture.compile.target import Target
from xlahouse.capture.compiled_facts import HLO, Compiled
from xlahouse.capture.errors import CaptureError

SCRIPT = Path(__file__).with_name("compiler.py")
CACHE = ".compiled"  # folder beside the captures' models


@dataclass(frozen=True)
class Compiler:
    """The Python that has jax and libtpu, and their versions."""

    python: str  # path of its executable
    versions: dict[str, str]  # package -> version

    @classmethod
    def of(cls, python: str | None, scratch: Path) -> Compiler:
        """Ask a Python (None: this one) for its compiler.

        Raises:
            CaptureError: it has none.
        """
        chosen = python or sys.executable
        answer = Children().run(
            (chosen, str(SCRIPT), "versions"), b"", scratch / "versions.log", {}
        )
        versions = json.loads(answer)
        missing = [name for name in ("jax", "jaxlib", "libtpu") if name not in versions]
        if missing:
            raise CaptureError(
                f"{chosen} has no {' and no '.join(missing)}: pip install 'xlahouse[compile]' "
                "(Linux x86-64), or name another Python with --compiler"
            )
        return cls(chosen, versions)


def compile_program(
    program: Path, log: Path, target: Target, compiler: Compiler, cache: Path, children: Children
) -> Compiled:
    """Compile the HloModuleProto in the file `<name>.pb` to `<name>.hlo.pb` beside it.

    The compiler's messages go to `log`.

    Raises:
        DoesNotFitError: the compiler refused it, since it needs more HBM than a chip has.
        CaptureError: the compiler refused it otherwise, failed, or exceeded its limits.
    """
    key = _key(program.read_bytes(), target, compiler)
    kept = cache / f"{key}.json"
    hlo = cache / f"{key}{HLO}"
    refused = cache / f"{key}.refused.txt"
    if refused.exists():
        raise refusal_error(program.stem, refused.read_text("utf-8"))
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=cache) as drafts:
            draft = Path(drafts, key)
            request = {
                "program": str(program),
                "out": str(draft),
                "topology": target.topology,
                "chip_config": target.chip_config,
                "device_count": target.device_count,
                "donated": f"{DONATED}.",
            }
            answer = children.run(
                (compiler.python, str(SCRIPT)),
                json.dumps(request).encode(),
                log,
                {"LIBTPU_INIT_ARGS": target.flags},
            )
            message = json.loads(answer).get("refused")
            if message is not None:
                error = refusal_error(program.stem, message)
                if isinstance(error, DoesNotFitError):  # it will be refused again
                    draft.write_text(message, "utf-8")
                    draft.replace(refused)
                raise error
            draft.with_name(f"{key}{HLO}").replace(hlo)
            draft.write_bytes(answer)
            draft.replace(kept)  # last: a program without its answer is compiled again
    program.with_suffix(HLO).write_bytes(hlo.read_bytes())
    return msgspec.json.decode(kept.read_bytes(), type=Compiled)


def _key(program: bytes, target: Target, compiler: Compiler) -> str:
    """Names a program by all that decides how it is compiled."""
    facts = (
        target.topology,
        target.chip_config,
        target.device_count,
        target.flags,
        sorted(compiler.versions.items()),
        hashlib.sha256(SCRIPT.read_bytes()).hexdigest(),
    )
    return hashlib.sha256(program + repr(facts).encode()).hexdigest()
