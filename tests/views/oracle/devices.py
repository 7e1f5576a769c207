"""Draws devices, meshes and the sizes of a run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.views.oracle.clocks import draw_clocks
from tests.views.oracle.drawn import Drawn, Row, factors

AXES = ("dp", "tp", "pp", "fsdp", "data", "sp", "ep")
KINDS = ("TPU v5 lite", "TPU v6 lite", "TPU v4", "TPU v5p", "TPU7x", "MI300", None)
MANIFESTS = (None, "{}", '{"tick_microbatch": [[0, null]]}')


@dataclass(frozen=True)
class Devices:
    """The devices of a run: all that programs run on, and those that were traced."""

    rows: list[Row]

    @property
    def worlds(self) -> dict[int, list[int]]:
        """World -> its devices, by logical id."""
        found: dict[int, list[int]] = {}
        for row in sorted(self.rows, key=lambda row: row["logical_id"]):
            found.setdefault(row["world"], []).append(row["device_id"])
        return found

    @property
    def traced(self) -> list[Row]:
        """Those that have events."""
        return [row for row in self.rows if row["traced"]]


def draw_devices(run: Drawn) -> Devices:
    """Devices of one or two worlds on one or two hosts, now and then a SparseCore beside them."""
    rng = run.rng
    is_square = run.chance(0.2)  # four chips whose links are known
    count = 4 if is_square else rng.randint(1, 6)
    ids = rng.sample(range(12), count)
    logical = list(ids) if run.chance(0.5) else rng.sample(range(count), count)
    kind, inferred = rng.choice(KINDS[:4] if is_square else KINDS), run.chance(0.1)
    cores = {"TPU7x": 2, "MI300": rng.choice((1, 2)), None: rng.choice((1, 2))}.get(kind, 1)
    hosts = rng.choice((["a"], ["a", "b"], ["a", "b"], ["b", None]))
    worlds = 2 if run.chance(0.15) else 1
    with_coords = run.chance(0.3) and not is_square
    rows = []
    for place, device in enumerate(ids):
        coords = [place // cores % 2, place // cores // 2, 0] if with_coords else None
        rows.append(
            run.add(
                "devices",
                device_id=device,
                logical_id=logical[place],
                world=place % worlds,
                traced=place == 0 or run.chance(0.85),
                host=hosts[place * len(hosts) // count],
                clock=hosts[place * len(hosts) // count],
                local_ordinal=place // len(hosts) if device % 5 else None,
                kind="cpu" if inferred else kind,
                core="cpu" if inferred else "tensorcore",
                chip_id=place // cores if is_square or run.chance(0.9) else None,
                coords=coords,
                slice_index=None
                if 3 in ids or is_square
                else place % 2,  # draws nothing, so that draws stay
                inferred=inferred,
                peak_flops=rng.choice((None, 2e14)),
                peak_hbm_bytes_per_s=rng.choice((None, 9e11)),
            )
        )
    if run.chance(0.2):
        run.add("devices", device_id=100, core="sparsecore", traced=True, host="a", clock="a",
                kind=kind, inferred=False)  # fmt: skip
    draw_clocks(run, [host for host in hosts if host is not None])
    _draw_run(run, ids)
    return Devices(rows)


def _draw_run(run: Drawn, ids: list[int]) -> None:
    rng = run.rng
    mesh = _mesh(run, len(ids))
    known = run.chance(0.8)
    sizes = {
        "batch_size": rng.randint(1, 8),
        "prompt_tokens": rng.randint(1, 9),
        "output_tokens": rng.randint(1, 5),
        "microbatches": rng.choice((None, 1, 2, 4)),
        "active_parameters": rng.randint(100, 10**6),
        "weight_bytes": rng.randint(100, 10**6),
        "kv_bytes_per_token": rng.randint(1, 10**4),
        "attention_pair_flops": float(rng.randint(1, 10**4)),
        "dtype": rng.choice(("float32", "bfloat16", "int8")),
        "hidden_size": rng.randint(1, 64),
        "whole_weights": rng.randint(0, 1000),
        "tensor_weights": rng.randint(1000, 10**5),
        "expert_weights": rng.choice((0, rng.randint(1, 10**5))),
        "experts": rng.randint(4, 16),
        "experts_per_token": rng.randint(1, 4),
        "head_weights": rng.randint(1, 500),
        "lookup_weights": rng.choice((0, 300)),
        "logit_positions": rng.choice((1, 2)),
        "measured_ttft_s": rng.choice((None, 0.5)),
        "measured_tpot_s": rng.choice((None, 0.1)),
    }
    sizes["parameters"] = sizes["active_parameters"] + rng.choice((0, 5))
    shown = {name: value for name, value in sizes.items() if known and run.chance(0.95)}
    order = rng.sample(ids, len(ids)) if run.chance(0.3) else None
    run.add(
        "runs",
        expected_device_count=len(ids),
        mesh=mesh,
        mesh_device_ids=order,
        name=run.run_id,
        manifest=MANIFESTS[int(run.run_id.split()[-1]) % len(MANIFESTS)],
        **shown,
    )
    if run.chance(0.15):
        settings = {"mesh": _mesh(run, len(ids))}
        if settings["mesh"]:
            run.add("run_settings", **settings)


def _mesh(run: Drawn, count: int) -> list[Row] | None:
    """Axes of a mesh, None now and then, or one that does not fit."""
    if run.chance(0.1):
        return None
    sizes = factors(run.rng, count + (1 if run.chance(0.05) else 0))
    names = run.rng.sample(AXES, len(sizes))
    return [{"axis": name, "size": size} for name, size in zip(names, sizes, strict=True)]
