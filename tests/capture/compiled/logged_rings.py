"""Compiles all-reduces for TPUs that are not there, and prints the rings that libtpu logs: a script.

`python logged_rings.py` reads [[topology, groups], …] (JSON) from stdin, and prints of each
{"places": {device: its place on the ring of its group}, "strategy": …}, as libtpu logs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_MIN_LOG_LEVEL": "0",
    "TPU_STDERR_LOG_LEVEL": "0",
    "TPU_VMODULE": "*net_util*=9",
}
_PLACE = re.compile(r"device:(\d+) .* new_ordinal::(\d+)")
_STRATEGY = re.compile(r'"strategy":"(\w+)"')


def main() -> None:
    """Answer; with an argument, compile one case and leave its log on stderr."""
    cases = json.load(sys.stdin)
    if len(sys.argv) > 1:
        print(compiled(*cases))
        return
    answers = []
    for case in cases:
        ran = subprocess.run(
            [sys.executable, __file__, "one"],
            input=json.dumps(case),
            env=os.environ | ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        )
        places = {int(device): int(place) for device, place in _PLACE.findall(ran.stderr)}
        answers.append({"places": places, "strategy": _STRATEGY.findall(ran.stdout)})
    print(json.dumps(answers))


def compiled(topology: str, groups: list[list[int]]) -> str:
    """The text of a program that sums 8 MiB over groups of a topology's first devices."""
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.experimental.shard_map import shard_map
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    found = topologies.get_topology_desc(topology, platform="tpu").devices
    by_id = {device.id: device for device in found}
    places = [[by_id[number] for number in group] for group in groups]
    mesh = Mesh(np.array(places), ("dp", "tp"))
    spec = P(("dp", "tp"), None)
    summed = shard_map(
        lambda x: jax.lax.psum(x, "tp"), mesh=mesh, in_specs=spec, out_specs=spec, check_rep=False
    )
    rows = 4096 * mesh.size
    given = jax.ShapeDtypeStruct((rows, 512), np.float32, sharding=NamedSharding(mesh, spec))
    return str(jax.jit(summed).lower(given).compile().as_text())


if __name__ == "__main__":
    main()
