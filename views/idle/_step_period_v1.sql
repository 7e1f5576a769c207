-- one row per run, device, request and step
-- The period of a step's window: from the end of the device's previous window, without the time in
-- which no request was open, to its own end. Windows of a device do not overlap: each is cut where
-- the next one starts.
with windows as (
    select
        window_key, run_id, device_id, request, step, end_ps,
        coalesce(
            lag(end_ps) over (partition by run_id, device_id order by window_key), start_ps
        ) as begun_ps
    from _step_window_v1
),

outside as (
    select window_key, sum(end_ps - start_ps) as between_requests_ps
    from _no_request_v1
    group by window_key
)

select
    -- key of the window
    w.window_key,
    -- run
    w.run_id,
    -- device
    w.device_id,
    -- request; NULL without a marker
    w.request,
    -- forward pass within the request; in a run without markers the launch instance
    w.step,
    -- the period; NULL where requests are marked and it is not known when one is open on the device's clock
    cast(
        case
            when u.run_id is null then w.end_ps - w.begun_ps - coalesce(o.between_requests_ps, 0)
        end as bigint
    ) as period_ps,
    -- time before the window with no request open; NULL as the period
    cast(
        case when u.run_id is null then coalesce(o.between_requests_ps, 0) end as bigint
    ) as between_requests_ps
from windows as w
left join outside as o on o.window_key = w.window_key
left join _unknown_open_time_v1 as u on u.run_id = w.run_id and u.device_id = w.device_id
