"""Named runs: every schedule kind, and every trap of a trace, in a size that tests can afford."""

from __future__ import annotations

from tests.synth.describe import Cost, Run

SLOW_LINK = Cost(30_000_003, 97)  # transfers outlast the compute that hides them

CASES: dict[str, Run] = {
    run.name: run
    for run in (
        Run(name="tp4"),
        Run(name="dp_tp", mesh=(("dp", 2), ("tp", 2)), hosts=2),
        Run(
            name="tp_skewed",
            lag_ps=(0, 50_021, 7_001, 390_011),
            offset_ps=(1_203_001, 0, 99_001, 5),
            requests=2,
            jitter_ps=10_000_000,
            notations=("list", "empty", "device_list"),
            gap_ps=220_003,
        ),
        Run(
            name="dp_tp_skewed_without_barriers",
            mesh=(("dp", 2), ("tp", 2)),
            lag_ps=(40_009, 0, 3_001, 70_001),
            barriers=False,
            copies=True,
            device_ids=(2, 0, 3, 1),
            appended_scalar=True,
            notations=("iota", "list", "device_list"),
            counted_programs=True,
        ),
        Run(
            name="tp_dp_replicas",
            mesh=(("tp", 2), ("dp", 2)),
            replicas=2,
            ids="replicas",
            notations=("list", "empty", "iota"),
            hosts=2,
            device_ids=(3, 1, 0, 2),
        ),
        Run(
            name="tp_all_partitions",
            mesh=(("dp", 2), ("tp", 2)),
            replicas=4,
            ids="all_partitions",
            notations=("list", "iota"),
        ),
        Run(name="tp_transposed", mesh=(("tp", 2), ("dp", 4)), hosts=2, traced_hosts=(1,)),
        Run(
            name="tp_cut_at_both_ends",
            layers=3,
            head_layers=2,
            tail_layers=1,
            extra_launches=2,
            lag_ps=(5_003, 0, 1_009, 307),
        ),
        Run(name="tp_loop", loop=True, layers=3, mesh=(("dp", 2), ("tp", 2))),
        Run(name="sp", mesh=(("tp", 4),), sequence_parallel=True, lag_ps=(0, 3, 1_000_003, 17)),
        Run(
            name="sp_fused",
            mesh=(("dp", 2), ("tp", 2)),
            sequence_parallel=True,
            fused_scatter=True,
            dtype="f32",
        ),
        Run(name="pp_stacked", mesh=(("pp", 4),), layers=4, batch=8, microbatches=4),
        Run(
            name="pp_tp_stacked",
            mesh=(("pp", 2), ("tp", 2)),
            layers=4,
            device_ids=(1, 3, 0, 2),
            hosts=2,
        ),
        Run(name="pp_stages", mesh=(("pp", 2),), pipeline="stages", layers=2, microbatches=4),
        Run(
            name="dp_pp_tp_stages",
            mesh=(("dp", 2), ("pp", 3), ("tp", 2)),
            pipeline="stages",
            layers=3,
            microbatches=2,
            hosts=3,
            requests=2,
        ),
        Run(name="ep", mesh=(("ep", 4),), lag_ps=(0, 11, 207_013, 5)),
        Run(name="ep_tp", mesh=(("ep", 2), ("tp", 2)), device_ids=(0, 2, 1, 3)),
        Run(name="fsdp_hidden", mesh=(("fsdp", 4),), hidden=64, layers=3, link=Cost(1_003, 3)),
        Run(
            name="fsdp_exposed",
            mesh=(("fsdp", 4),),
            layers=3,
            link=SLOW_LINK,
            offset_ps=(0, 20_011, 3, 800_009),
            copies=True,
            wrapped_async=True,
            gap_ps=100_003,
        ),
        Run(name="dp_fsdp", mesh=(("dp", 2), ("fsdp", 2)), hosts=2, host_start_ns=(0, 20_001)),
        Run(name="two_processes", hosts=2, processes=2, mesh=(("dp", 2), ("tp", 4))),
        Run(name="late_host", hosts=2, host_start_ns=(0, 13_007), lag_ps=(0, 1_007, 90_001, 33)),
        Run(name="one_token", output_tokens=1, requests=2),
        Run(name="no_collectives", mesh=(("dp", 4),)),
    )
}
