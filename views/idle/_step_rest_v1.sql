-- one row per run, device, request and step
-- The idle times of busy_stretches, summed, and where the long gaps (100 ns or more) are.
select
    -- run
    run_id,
    -- device
    device_id,
    -- request; NULL without a marker
    request,
    -- forward pass within the request; in a run without markers the launch instance
    step,
    -- idle time
    cast(sum(idle_ps) as bigint) as idle_ps,
    -- of this, in short gaps
    cast(
        sum(
            case when idle_ps + gap_before_ps + gap_after_ps < 100000 then idle_ps else 0 end
        ) as bigint
    ) as short_ps,
    -- start of the first long gap; NULL without one
    min(
        case
            when idle_ps + gap_before_ps + gap_after_ps >= 100000
                then start_ps - idle_ps - gap_before_ps
        end
    ) as long_start_ps,
    -- end of the last long gap
    max(
        case
            when idle_ps + gap_before_ps + gap_after_ps >= 100000 then start_ps + gap_after_ps
        end
    ) as long_end_ps
from busy_stretches
group by run_id, device_id, request, step
