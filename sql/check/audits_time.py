"""Audits of the views on time: parts of a step, of idle time and of launches add up to the whole."""

from __future__ import annotations

from xlahouse.sql.check.audit import Audit

TIME_AUDITS = (
    Audit(
        "window_adds_up",
        "compute + exposed + exposed_copy + sync_wait + idle is not the window, or one is negative",
        """
        select run_id, device_id, request, step, window_ps
        from device_time_v1
        where window_ps <> compute_ps + exposed_ps + exposed_copy_ps + sync_wait_ps + idle_ps
            or busy_ps <> compute_ps + exposed_ps + exposed_copy_ps
            or least(compute_ps, exposed_ps, exposed_copy_ps, sync_wait_ps, idle_ps) < 0
            or overlapped_ps > compute_ps or exposed_copy_ps > copy_ps
        """,
    ),
    Audit(
        "periods_add_up",
        "a device's periods and the time between requests are not its wall time, or one is negative",
        """
        select run_id, device_id, sum(period_ps) as period_ps,
            sum(between_requests_ps) as between_requests_ps,
            max(start_ps + window_ps) - min(start_ps) as wall_ps
        from device_time_v1
        group by run_id, device_id
        having sum(period_ps + between_requests_ps) <> max(start_ps + window_ps) - min(start_ps)
            or min(period_ps - window_ps) < 0 or min(between_requests_ps) < 0
        """,
    ),
    Audit(
        "steps_hold_every_window",
        "the windows or busy times of a step's devices do not add up to those of device_time",
        """
        with placed as (
            select *, max(step) over (partition by run_id) as last_step
            from device_time_v1
            where core is distinct from 'sparsecore'
        ),
        seen as (
            select run_id, request, step, count(*) as devices,
                sum(window_ps) as window_ps, sum(busy_ps) as busy_ps
            from placed
            where step is not null or last_step is null
            group by run_id, request, step
        )
        select s.run_id, s.request, s.step, s.devices, t.devices as in_step_time
        from seen as s
        left join step_time_v1 as t
            on t.run_id = s.run_id and t.request is not distinct from s.request
            and t.step is not distinct from s.step
        left join load_balance_v1 as b
            on b.run_id = s.run_id and b.request is not distinct from s.request
            and b.step is not distinct from s.step
        where t.devices is distinct from s.devices or b.devices is distinct from s.devices
            or abs(t.mean_window_ps * s.devices - s.window_ps) > 1e-9 * s.window_ps
            or abs(b.mean_busy_ps * s.devices - s.busy_ps) > 1e-9 * s.busy_ps
            or t.longest_window_ps < t.mean_window_ps * (1 - 1e-12) or b.imbalance_ratio < -1e-12
        """,
    ),
    Audit(
        "idle_has_causes",
        "the causes of a step's idle time do not add up to that of device_time, or one is negative",
        """
        with told as (
            select run_id, device_id, request, step, sum(idle_ps) as idle_ps,
                min(idle_ps) as least_ps, min(masked_ps) as least_masked_ps
            from bubble_v2
            where cause <> 'between_steps'
            group by run_id, device_id, request, step
        ),
        seen as (
            select run_id, device_id, request, step, sum(idle_ps) as idle_ps
            from device_time_v1
            where core is distinct from 'sparsecore'
            group by run_id, device_id, request, step
        )
        select s.run_id, s.device_id, s.request, s.step, s.idle_ps, t.idle_ps as in_bubble_ps
        from seen as s
        left join told as t
            on t.run_id = s.run_id and t.device_id = s.device_id
            and t.request is not distinct from s.request and t.step is not distinct from s.step
        where t.idle_ps is distinct from s.idle_ps or t.least_ps < 0 or t.least_masked_ps < 0
        """,
    ),
    Audit(
        "latency_adds_up",
        "TTFT and the tokens after it do not add up to end to end, or the queue and TTFT to TTFT with queue",
        """
        select run_id, request, ttft_s, tpot_s, decode_steps, output_tokens, e2e_s, queue_s, request_ttft_s
        from latency_v3
        where abs(ttft_s + coalesce(output_tokens - 1, decode_steps) * coalesce(tpot_s, 0) - e2e_s)
                > 1e-9 * e2e_s and (tpot_s is not null or source = 'marker')
            or abs(queue_s + ttft_s - request_ttft_s) > 1e-9 * request_ttft_s
            or queue_s < 0
        """,
    ),
    Audit(
        "percentiles_are_ordered",
        "a percentile is less than a smaller one, or a median outside least and most",
        """
        select 'latency' as view, run_id, request, cast(null as varchar) as phase
        from latency_v3
        where p50_step_s > p90_step_s * (1 + 1e-12) or p90_step_s > p95_step_s
            or p95_step_s > p99_step_s
        union all
        select 'run_summary', run_id, null, null
        from run_summary_v2
        where ttft_s > p90_ttft_s * (1 + 1e-12) or p90_ttft_s > p99_ttft_s
            or p99_ttft_s > max_ttft_s or min_ttft_s > ttft_s * (1 + 1e-12)
            or request_ttft_s > p90_request_ttft_s * (1 + 1e-12)
            or p90_request_ttft_s > p99_request_ttft_s
            or tpot_s > p90_tpot_s * (1 + 1e-12) or p90_tpot_s > p99_tpot_s
            or p99_tpot_s > max_tpot_s or min_tpot_s > tpot_s * (1 + 1e-12)
        union all
        select 'scheduling', run_id, null, phase
        from scheduling_v2
        where p50_queue_ps > p95_queue_ps or p50_dispatch_ps > p95_dispatch_ps
            or p50_launch_gap_ps > p95_launch_gap_ps
        """,
    ),
    Audit(
        "shares_are_parts",
        "a share is below 0 or above 1",
        """
        select 'run_summary' as view, run_id
        from run_summary_v2
        where least(unclassified_ratio, exposed_ratio, overlapped_ratio, sync_wait_ratio,
                idle_ratio, idle_in_step_ratio) < 0
            or greatest(unclassified_ratio, exposed_ratio, overlapped_ratio, sync_wait_ratio,
                idle_ratio, idle_in_step_ratio) > 1
        union all
        select 'straggler', run_id
        from straggler_v2
        where last_ratio < 0 or last_ratio > 1
        """,
    ),
    Audit(
        "idle_shares_are_shares",
        "a share of idle time lies outside 0 to 1, or idle and other time exceed a step's period",
        """
        select run_id, phase, 'comm_compute' as view, idle_ratio, idle_in_step_ratio
        from comm_compute_v2
        where idle_ratio not between 0 and 1 or idle_in_step_ratio not between 0 and 1
            or outside_ps < 0
        union all
        select run_id, phase, 'bubble', sum(bubble_ratio), max(pipeline_ratio)
        from bubble_v2
        group by run_id, device_id, request, step, phase
        having sum(bubble_ratio) > 1 + 1e-9 or min(bubble_ratio) < 0
            or max(pipeline_ratio) > 1 + 1e-9 or min(pipeline_ratio) < 0
        """,
    ),
    Audit(
        "scheduling_holds_every_launch",
        "launches are lost or doubled in scheduling, or wait longer for a free device than in all",
        """
        with said as (
            select run_id, sum(launches) as launches from scheduling_v2 group by run_id
        ),
        seen as (
            select run_id, count(*) as launches,
                sum(case when dispatch_ps > queue_ps or dispatch_ps < 0 then 1 else 0 end) as wrong
            from launch_overhead_v1
            group by run_id
        )
        select seen.run_id, seen.launches, said.launches as in_scheduling, seen.wrong
        from seen
        left join said on said.run_id = seen.run_id
        where said.launches is distinct from seen.launches or seen.wrong > 0
        """,
    ),
    Audit(
        "parts_of_periods_add_up",
        "the times that op_diff compares do not add up to the periods of a phase's steps; where an older"
        " xlahouse ingested the run, ingest it again",
        """
        with said as (
            select run_id, phase, count(*) - count(attributed_ps) as unknown,
                sum(attributed_ps) as parts_ps
            from _op_place_v1 group by run_id, phase
        ),
        timed as (
            select run_id, phase, step, period_ps, max(step) over (partition by run_id) as last_step
            from device_time_v1
            where core is distinct from 'sparsecore'
        ),
        -- Devices without steps beside ones with steps are left out.
        seen as (
            select run_id, phase, count(*) - count(period_ps) as unknown, sum(period_ps) as period_ps
            from timed
            where step is not null or last_step is null
            group by run_id, phase
        )
        select seen.run_id, seen.phase, seen.period_ps, said.parts_ps
        from seen
        left join said on said.run_id = seen.run_id and said.phase is not distinct from seen.phase
        where seen.unknown = 0 and said.unknown is distinct from 0
            and exists (select 1 from ops where ops.run_id = seen.run_id and attributed_ps is not null)
            or seen.unknown = 0 and said.unknown = 0 and said.parts_ps <> seen.period_ps
            or said.run_id is null
        """,
    ),
    Audit(
        "host_gaps_add_up",
        "what a host did in a gap between launches does not add up to it, or is open for less than itself",
        """
        select run_id, device_id, start_ps, max(duration_ps) as duration_ps,
            sum(self_ps) as of_events_ps
        from host_gaps
        group by run_id, device_id, start_ps
        having sum(self_ps) <> max(duration_ps) or min(self_ps) < 0
            or max(overlap_ps) > max(duration_ps) or min(overlap_ps - self_ps) < 0
        """,
    ),
    Audit(
        "exposed_time_has_owners",
        "the exposed time of a phase's collectives does not add up to that of its steps, or one is"
        " exposed for longer than it is in flight",
        """
        with owned as (
            select run_id, phase, sum(exposed_ps) as exposed_ps,
                sum(case when op is not null and exposed_ps > in_flight_ps + 1 then 1 else 0 end)
                    as longer
            from exposed_collective_v1 group by run_id, phase
        ),
        steps as (
            select run_id, phase, exposed_ps from comm_compute_v2
        )
        select s.run_id, s.phase, s.exposed_ps, o.exposed_ps as of_collectives_ps, o.longer
        from steps as s
        left join owned as o on o.run_id = s.run_id and o.phase is not distinct from s.phase
        where abs(coalesce(o.exposed_ps, 0) - s.exposed_ps) > 1 + 1e-9 * s.exposed_ps or o.longer > 0
        """,
    ),
)
