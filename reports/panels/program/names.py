"""Names of a run's programs that tell them apart."""

from __future__ import annotations

# Of the run $run. A compiled program is that of a phase; a measured one has the phases of requests that
# its launches are in.
PROGRAM_NAMES = """ran as (
    select d.world, l.program_id, string_agg(distinct l.phase, ' and ' order by l.phase desc) as phases
    from launches as l
    join devices as d on d.run_id = l.run_id and d.device_id = l.device_id
    where l.run_id = $run and l.phase in ('prefill', 'decode', 'mixed')
    group by d.world, l.program_id
), labelled as (
    select
        world, program_id,
        coalesce(p.phase, p.module || coalesce(', ' || r.phases, '')) as label
    from programs as p
    left join ran as r using (world, program_id)
    where p.run_id = $run
), program_names as (
    select
        world, program_id,
        if(
            count(*) over (partition by label) = 1,
            label, concat(label, ', program ', program_id, ' of world ', world)
        ) as program
    from labelled
)"""
