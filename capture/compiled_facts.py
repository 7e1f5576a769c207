"""The contract of compile and ingest: the file compiled.json of a folder compiled_<timestamp>."""

from __future__ import annotations

import re

import msgspec

from xlahouse.capture.manifest import Count

# Layout: <dir>/compiled_<timestamp>/ with these files, and <dir>/metadata_<timestamp>.json beside it.
COMPILED_DIR = re.compile(r"^compiled_(?P<timestamp>.+)$")
FACTS = "compiled.json"  # written last
REFUSED = ".refused_{key:.16}.json"  # beside them where the compiler refused the programs of a key
HLO = ".hlo.pb"  # `prefill.hlo.pb`, `decode.hlo.pb`: each an HloProto with its buffer assignment
PROGRAMS = ("prefill", "decode")  # [step] -> phase


class ChipPlace(msgspec.Struct, frozen=True):
    """A device of the topology."""

    id: Count  # by which replica groups name it
    coords: list[Count]  # of its chip, [x, y, z]
    core: Count  # of the chip
    host: Count  # process


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """The compiler's statements on one program; bytes are those of one device."""

    argument_bytes: Count  # weights, cache, tokens
    output_bytes: Count  # results, aliased ones included
    alias_bytes: Count  # results in the buffers of arguments
    temp_bytes: Count  # temporaries, at most at once
    generated_code_bytes: Count  # the program itself
    peak_bytes: Count  # most that is live at once, as the compiler counts it
    arguments: list[str]  # [parameter] -> the scope of its first use
    platform_version: str  # the compiler's build
    device_kind: str  # such as TPU v6 lite
    devices: list[ChipPlace]  # of the topology, by id

    @property
    def needed_bytes(self) -> int:
        """All that a device holds while the program runs, the program included.

        The compiler's statistics count temporaries of all memory spaces: those in VMEM are no HBM, so
        that this is up to 128 MiB more than the view program_fit says.
        """
        own_results = self.output_bytes - self.alias_bytes
        return self.argument_bytes + own_results + self.temp_bytes + self.generated_code_bytes


class CompiledRun(msgspec.Struct, frozen=True, kw_only=True):
    """The file compiled.json: all that the compiler said about a run's programs."""

    key: str  # names plan, code, chips, flags and versions
    topology: str  # libtpu's name, such as v6e:2x4
    chip_config: str  # libtpu's `chip_config_name`; empty: its default
    flags: str  # LIBTPU_INIT_ARGS
    compiler: dict[str, str]  # package -> version
    programs: dict[str, Compiled]  # by phase, as PROGRAMS names them


class RefusedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The file .refused.json: programs that need more HBM than the chips have."""

    key: str  # names plan, code, chips, flags and versions
    compiler: dict[str, str]  # package -> version
    programs: tuple[str, ...]  # that were asked for
    reason: str  # the program that was refused, what it needs, and which batch or mesh compiles
