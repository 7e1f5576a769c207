"""Audits of the tables on busy and idle time: they hold what the ops of their devices say."""

from __future__ import annotations

from xlahouse.sql.check.audit import Audit

BUSY_AUDITS = (
    Audit(
        "busy_intervals_are_merged",
        "intervals of one category overlap or are empty",
        """
        with followed as (
            select
                *,
                lead(start_ps) over (
                    partition by run_id, device_id, request, step, category order by start_ps
                ) as next_start_ps
            from busy_intervals
        )
        select run_id, device_id, request, step, category, start_ps, duration_ps
        from followed
        where duration_ps <= 0 or next_start_ps < start_ps + duration_ps
        """,
    ),
    Audit(
        "busy_intervals_hold_ops",
        "the merged time of a category's ops is not that of its intervals",
        """
        with spans as (
            select o.run_id, o.device_id, o.request, o.step, o.start_ps,
                o.start_ps + o.duration_ps as end_ps,
                case
                    when o.category in ('compute', 'collective') then o.category
                    when o.category in ('copy', 'host_transfer') then 'copy_running'
                    when o.op = 'barrier-cores' then 'sync_wait'
                end as category
            from ops as o
            left join devices as d on d.run_id = o.run_id and d.device_id = o.device_id
            where o.duration_ps > 0 and o.line is distinct from 'Async XLA Ops'
                and d.core is distinct from 'sparsecore'  -- its ops are those of its TensorCore
            union all
            select run_id, device_id, request, step, start_ps, start_ps + duration_ps, 'collective'
            from collectives
            where duration_ps > 0
        ),
        reached as (
            select *, max(end_ps) over (
                    partition by run_id, device_id, request, step, category
                    order by start_ps, end_ps
                    rows between unbounded preceding and 1 preceding
                ) as reached_ps
            from spans
            where category is not null
        ),
        recomputed as (
            select run_id, device_id, request, step, category,
                sum(greatest(end_ps - greatest(start_ps, coalesce(reached_ps, start_ps)), 0))
                    as busy_ps
            from reached group by run_id, device_id, request, step, category
        ),
        kept as (
            select run_id, device_id, request, step, category, sum(duration_ps) as busy_ps
            from busy_intervals
            group by run_id, device_id, request, step, category
        )
        select r.run_id, r.device_id, r.request, r.step, r.category, r.busy_ps, k.busy_ps as kept_ps
        from recomputed as r
        left join kept as k
            on k.run_id = r.run_id and k.device_id = r.device_id and k.category = r.category
            and k.request is not distinct from r.request and k.step is not distinct from r.step
        where coalesce(k.busy_ps, 0) <> r.busy_ps
        """,
    ),
    Audit(
        "device_steps_hold_intervals",
        "the split of a step is not that of its ops and busy intervals; where an older xlahouse ingested"
        " the run, ingest it again",
        """
        with spans as (
            select run_id, device_id, request, step, min(start_ps) as start_ps,
                max(start_ps + duration_ps) as end_ps,
                min(case when phase in ('prefill', 'decode', 'mixed') then start_ps end)
                    as pass_start_ps,
                max(case when phase in ('prefill', 'decode', 'mixed') then start_ps + duration_ps end)
                    as pass_end_ps
            from ops
            where category <> 'control'
            group by run_id, device_id, request, step
        ),
        weighed as (
            select *, max(case when step is null then 0 else 1 end) over (
                    partition by run_id, device_id
                ) as has_steps
            from spans
        ),
        followed as (
            select *, lead(start_ps) over (
                    partition by run_id, device_id order by start_ps, end_ps, request, step
                ) as next_ps
            from weighed
            where step is not null or has_steps = 0
        ),
        windows as (
            select run_id, device_id, request, step, start_ps, pass_start_ps, pass_end_ps,
                case when next_ps < end_ps then next_ps else end_ps end as end_ps
            from followed
        ),
        clipped as (
            select w.run_id, w.device_id, w.request, w.step,
                greatest(b.start_ps, w.start_ps) as start_ps,
                least(b.start_ps + b.duration_ps, w.end_ps) as end_ps,
                case
                    when b.category = 'compute' then 1
                    when b.category = 'collective' then 2
                    when b.category = 'copy_running' then 3
                    when b.category = 'sync_wait' then 4
                end as class
            from windows as w
            inner join busy_intervals as b
                on b.run_id = w.run_id and b.device_id = w.device_id
                and b.request is not distinct from w.request and b.step is not distinct from w.step
        ),
        reached as (
            select *,
                max(case when class <= 2 then end_ps end) over before as transfer_end_ps,
                max(case when class <= 3 then end_ps end) over before as copy_end_ps,
                max(end_ps) over before as wait_end_ps
            from clipped
            where start_ps < end_ps and class is not null
            window before as (
                partition by run_id, device_id, request, step order by start_ps
                rows between unbounded preceding and 1 preceding
            )
        ),
        unions as (
            select run_id, device_id, request, step,
                sum(case when class = 1 then end_ps - start_ps else 0 end) as compute_ps,
                sum(case when class = 2 then end_ps - start_ps else 0 end) as collective_ps,
                sum(case when class = 3 then end_ps - start_ps else 0 end) as copy_ps,
                sum(case
                    when class <= 2
                        then greatest(end_ps - greatest(start_ps, coalesce(transfer_end_ps, start_ps)), 0)
                    else 0
                end) as to_transfer_ps,
                sum(case
                    when class <= 3
                        then greatest(end_ps - greatest(start_ps, coalesce(copy_end_ps, start_ps)), 0)
                    else 0
                end) as to_copy_ps,
                sum(greatest(end_ps - greatest(start_ps, coalesce(wait_end_ps, start_ps)), 0))
                    as to_wait_ps
            from reached
            group by run_id, device_id, request, step
        )
        select w.run_id, w.device_id, w.request, w.step, w.end_ps - w.start_ps as window_ps,
            s.duration_ps as kept_ps, u.compute_ps, s.compute_ps as kept_compute_ps,
            u.to_wait_ps, s.sync_wait_ps as kept_wait_ps
        from windows as w
        left join unions as u
            on u.run_id = w.run_id and u.device_id = w.device_id
            and u.request is not distinct from w.request and u.step is not distinct from w.step
        left join device_steps as s
            on s.run_id = w.run_id and s.device_id = w.device_id
            and s.request is not distinct from w.request and s.step is not distinct from w.step
        where s.start_ps is distinct from w.start_ps
            or s.pass_start_ps is distinct from w.pass_start_ps
            or s.pass_end_ps is distinct from w.pass_end_ps
            or s.duration_ps is distinct from w.end_ps - w.start_ps
            or s.compute_ps is distinct from coalesce(u.compute_ps, 0)
            or s.collective_ps is distinct from coalesce(u.collective_ps, 0)
            or s.overlapped_ps
            is distinct from coalesce(u.compute_ps + u.collective_ps - u.to_transfer_ps, 0)
            or s.copy_ps is distinct from coalesce(u.copy_ps, 0)
            or s.exposed_copy_ps is distinct from coalesce(u.to_copy_ps - u.to_transfer_ps, 0)
            or s.sync_wait_ps is distinct from coalesce(u.to_wait_ps - u.to_copy_ps, 0)
        """,
    ),
    Audit(
        "attributed_times_add_up",
        "the attributed times of a step's ops do not add up to the parts of the step",
        """
        with summed as (
            select run_id, device_id, request, step, count(attributed_ps) as known,
                sum(case when category = 'compute' then attributed_ps else 0 end) as compute_ps,
                sum(case when category = 'collective' then attributed_ps else 0 end) as exposed_ps,
                sum(case when category in ('copy', 'host_transfer') then attributed_ps else 0 end)
                    as exposed_copy_ps,
                sum(case when category in ('wait', 'control') then attributed_ps else 0 end)
                    as sync_wait_ps,
                sum(attributed_ps) as whole_ps
            from ops
            group by run_id, device_id, request, step
        )
        select s.run_id, s.device_id, s.request, s.step, s.compute_ps, o.compute_ps as of_ops_ps,
            o.whole_ps
        from device_steps as s
        inner join summed as o
            on o.run_id = s.run_id and o.device_id = s.device_id
            and o.request is not distinct from s.request and o.step is not distinct from s.step
        where o.known > 0 and (
            o.compute_ps <> s.compute_ps or o.exposed_ps <> s.collective_ps - s.overlapped_ps
            or o.exposed_copy_ps <> s.exposed_copy_ps or o.sync_wait_ps <> s.sync_wait_ps
            or o.whole_ps <> o.compute_ps + o.exposed_ps + o.exposed_copy_ps + o.sync_wait_ps
        )
        """,
    ),
    Audit(
        "stretches_fill_their_steps",
        "a step is not its busy stretches and the idle times before them, one after the other; where an"
        " older xlahouse ingested the run, ingest it again",
        """
        with followed as (
            select *, lag(start_ps + duration_ps) over (
                    partition by run_id, device_id, request, step order by start_ps
                ) as reached_ps
            from busy_stretches
        ),
        summed as (
            select run_id, device_id, request, step, min(start_ps) as start_ps,
                sum(duration_ps) as busy_ps, sum(idle_ps) as idle_ps,
                sum(case when reached_ps <> start_ps - idle_ps then 1 else 0 end) as jumps
            from followed
            group by run_id, device_id, request, step
        ),
        split as (
            select *,
                compute_ps + collective_ps - overlapped_ps + exposed_copy_ps + sync_wait_ps as busy_ps
            from device_steps
        )
        select s.run_id, s.device_id, s.request, s.step, s.duration_ps as window_ps, s.busy_ps,
            k.busy_ps as in_stretches_ps, k.idle_ps, k.jumps
        from split as s
        left join summed as k
            on k.run_id = s.run_id and k.device_id = s.device_id
            and k.request is not distinct from s.request and k.step is not distinct from s.step
        where k.start_ps is distinct from s.start_ps or k.busy_ps is distinct from s.busy_ps
            or k.idle_ps is distinct from s.duration_ps - s.busy_ps or k.jumps > 0
        """,
    ),
)
