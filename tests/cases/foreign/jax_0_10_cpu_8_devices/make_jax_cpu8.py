import os
import pathlib

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map
except Exception:
    from jax.experimental.shard_map import shard_map
devs = np.array(jax.devices()).reshape(2, 4)
mesh = Mesh(devs, ("dp", "tp"))


def f(x, w):
    y = x @ w
    y = jax.lax.psum(y, "tp")  # all-reduce over tp: f32[64,256]
    g = jax.lax.all_gather(y[:, :64], "tp", axis=1, tiled=True)  # all-gather over tp -> [64,256]
    r = jax.lax.psum_scatter(g, "dp", scatter_dimension=0, tiled=True)  # reduce-scatter over dp
    p = jax.lax.ppermute(r, "tp", [(0, 1), (1, 2), (2, 3)])  # chain not ring
    a = jax.lax.all_to_all(p, "tp", split_axis=0, concat_axis=1, tiled=True)
    return jnp.sum(a)[None]


try:
    F = jax.jit(
        shard_map(
            f,
            mesh=mesh,
            in_specs=(P("dp", "tp"), P("tp", None)),
            out_specs=P(("dp", "tp")),
            check_vma=False,
        )
    )
except TypeError:
    F = jax.jit(
        shard_map(
            f,
            mesh=mesh,
            in_specs=(P("dp", "tp"), P("tp", None)),
            out_specs=P(("dp", "tp")),
            check_rep=False,
        )
    )
x = jnp.ones((128, 256), jnp.float32)
w = jnp.ones((256, 256), jnp.float32)
x = jax.device_put(x, NamedSharding(mesh, P("dp", "tp")))
w = jax.device_put(w, NamedSharding(mesh, P("tp", None)))
F(x, w).block_until_ready()
pathlib.Path("raw/jaxcpu/hlo.txt").write_text(F.lower(x, w).compile().as_text())
with jax.profiler.trace("raw/jaxcpu/log"):
    for _ in range(6):
        F(x, w).block_until_ready()
print(jax.__version__)
