"""Compiles one program for TPUs that are not there: a script of its own, with nothing of xlahouse.

`python compiler.py` runs under a Python that has jax, jaxlib and libtpu. It reads a request (JSON) from
stdin, writes `<out>.hlo.pb` (an HloProto: module and buffer assignment), and prints an answer (JSON);
of a program that the compiler refuses it prints {"refused": the compiler's message}.
Its environment has the compiler's flags (capture/compile/target.py). jax must not be imported beside
torch_xla, whose scopes would use it. `python compiler.py versions` prints the packages' versions (JSON).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # no metadata server answers here
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
PARENT = "XLAHOUSE_PARENT"  # variable with the number of the process that waits for this one
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
PACKAGES = ("jax", "jaxlib", "libtpu")
MEMORY = ("argument", "output", "alias", "temp", "generated_code")


def main() -> int:
    """Answer one request."""
    end_with_parent()
    if sys.argv[1:] == ["versions"]:
        print(json.dumps(versions()))
        return 0
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as dumps:
        own = os.environ.get("XLA_FLAGS", "")
        flags = f"{own} --xla_dump_to={dumps} --xla_dump_hlo_as_proto=true".strip()
        os.environ |= ENVIRONMENT | {"XLA_FLAGS": flags}
        answer = compile_program(**request, dumps=Path(dumps))
    print(json.dumps(answer))
    return 0


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, however that ends: a compiler runs for minutes."""
    parent = os.environ.get(PARENT)
    if parent is None:  # started by hand
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not Path("/proc", parent).exists():  # it ended before that
        os._exit(1)


def compile_program(
    program: str,
    out: str,
    topology: str,
    chip_config: str,
    device_count: int,
    donated: str,
    dumps: Path,
) -> dict[str, Any]:
    """Compile the HloModuleProto in the file `program` for the first `device_count` devices.

    Arguments whose scope begins with `donated` give their buffers to results. The compiler's dumps go to
    the folder `dumps`.
    """
    from jaxlib import _jax

    devices = devices_of(topology, chip_config)
    with open(program, "rb") as file:
        module, arguments = prepare(file.read(), donated)
    try:
        executable = build(module, devices[:device_count])
    except _jax.XlaRuntimeError as error:
        return {"refused": str(error)}
    stats = executable.get_compiled_memory_stats()
    (compiled,) = executable.hlo_modules()
    with open(f"{out}.hlo.pb", "wb") as file:
        file.write(field(1, compiled.as_serialized_hlo_module_proto()))
        file.write(field(3, stats.serialized_buffer_assignment_proto or assignment_in(dumps)))
    memory = {f"{name}_bytes": getattr(stats, f"{name}_size_in_bytes") for name in MEMORY}
    return {
        **memory,
        "peak_bytes": stats.peak_memory_in_bytes,
        "arguments": arguments,
        "platform_version": " ".join(devices[0].client.platform_version.split()),
        "device_kind": devices[0].device_kind,
        "devices": places(devices),
    }


def devices_of(topology: str, chip_config: str) -> list[Any]:
    """The devices of a topology by their ids: the compiler lists them by host."""
    from jax.experimental import topologies

    options = {"chip_config_name": chip_config} if chip_config else {}
    found = topologies.get_topology_desc(topology, platform="tpu", **options).devices
    return sorted(found, key=lambda device: device.id)


def places(devices: list[Any]) -> list[dict[str, Any]]:
    """Where each device's chip is."""
    return [
        {
            "id": device.id,
            "coords": list(device.coords),
            "core": device.core_on_chip,
            "host": device.process_index,
        }
        for device in devices
    ]


def prepare(program: bytes, donated: str) -> tuple[bytes, list[str]]:
    """The program as MLIR, its arguments sharded and donated, and the arguments' scopes.

    A placeholder of torch_xla cannot have a sharding. capture/compile/placeholders.py multiplies it
    by one and marks the product; here the sharding moves to the argument, and the product goes.
    """
    from jax._src.interpreters.mlir import make_ir_context, module_to_bytecode
    from jaxlib import _jax
    from jaxlib.mlir import ir

    context = make_ir_context()
    with context, ir.Location.unknown(context):
        module: Any = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(program))
        (function,) = (op for op in module.body.operations if str(op.name) == '"main"')
        block = function.regions[0].blocks[0]
        known = list(function.attributes["arg_attrs"])
        # As capture compiles it: otherwise results get layouts that no donated argument has.
        default = {"mhlo.layout_mode": ir.StringAttr.get("default")}
        results = [ir.DictAttr.get(default) for _ in function.type.results]
        function.attributes["res_attrs"] = ir.ArrayAttr.get(results)
        scopes, attributes = [], []
        for argument, own in zip(tuple(block.arguments), known, strict=True):
            scope = scope_of(argument)
            added = {each.name: each.attr for each in own} | default
            for mark in marks(argument):
                added["mhlo.sharding"] = mark.attributes["mhlo.sharding"]
                mark.operands[0] = argument
            if scope.startswith(donated):
                added["jax.buffer_donor"] = ir.BoolAttr.get(True)
            scopes.append(scope)
            attributes.append(ir.DictAttr.get(added))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
        return module_to_bytecode(module), scopes


def marks(argument: Any) -> Iterator[Any]:
    """The marks of the argument's product with one, which may be computed in another type."""
    ways = [argument]
    while ways:
        for use in list(ways.pop().uses):
            op = use.owner
            if op.name in ("stablehlo.multiply", "stablehlo.convert"):
                ways.append(op.results[0])
            elif op.name == "stablehlo.custom_call":
                marked = op.attributes["call_target_name"].value == "Sharding"
                if marked and op.operands[0].type == argument.type:
                    yield op


def scope_of(argument: Any) -> str:
    """The scope in which the argument was first used; torch_xla adds a number to it."""
    text = str(argument.location).split('"')[1]
    scope = text.split("/")[0].rpartition(".")
    return scope[0] if scope[2].isdecimal() else ""


def build(module: bytes, devices: list[Any]) -> Any:
    """The executable of an SPMD program over `devices`."""
    import numpy as np
    from jaxlib import _jax, xla_client

    options = xla_client.CompileOptions()
    build_options = options.executable_build_options
    build_options.num_replicas = 1
    build_options.num_partitions = len(devices)
    build_options.use_spmd_partitioning = True
    # Otherwise results are gathered whole, which no plan asks for.
    build_options.allow_spmd_sharding_propagation_to_output = [True]
    ids = np.array([[device.id for device in devices]])
    build_options.device_assignment = xla_client.DeviceAssignment.create(ids)
    return devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)


def assignment_in(dumps: Path) -> bytes:
    """The buffer assignment in the dump of the optimized program: libtpu 0.0.21 does not return it.

    Its instructions have the ids of those in the compiled program. Nothing where there is no such dump.
    """
    found = sorted(dumps.glob("*.after_optimizations.hlo.pb"))
    if len(found) != 1:
        return b""
    raw, place = found[0].read_bytes(), 0
    while place < len(raw):
        tag, place = varint(raw, place)
        length, place = varint(raw, place)
        if tag >> 3 == 3:
            return raw[place : place + length]
        place += length
    return b""


def varint(raw: bytes, place: int) -> tuple[int, int]:
    """A protobuf number and the place behind it."""
    value = shift = 0
    while raw[place] > 127:
        value |= (raw[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | raw[place] << shift, place + 1


def versions() -> dict[str, str]:
    """Package -> version; a package that is not installed is left out."""
    from importlib import metadata

    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def field(number: int, payload: bytes) -> bytes:
    """A protobuf field of bytes: its tag, its length, the bytes."""
    tag, length = bytearray([number << 3 | 2]), len(payload)
    while length > 127:
        tag.append(length & 127 | 128)
        length >>= 7
    return bytes([*tag, length]) + payload


if __name__ == "__main__":
    sys.exit(main())
