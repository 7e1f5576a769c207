-- one row per run and host with traced devices
-- How far a host's clock is from the reference host's, by the ends of collectives that both took
-- part in: all members of a synchronous all-reduce, all-gather, reduce-scatter or all-to-all leave
-- it together. The reference is the first host by name that shares one with another host, or the
-- run's only host. Offset: median over instances of the latest end on the host less that on the
-- reference host. Spread: from the 5th to the 95th percentile of the same, each the value of row
-- ceil(p n); NULL with one instance. Where the spread exceeds the median skew between both hosts,
-- offset subtracted, skews across hosts mean nothing: is_usable is false. Instances are found by
-- time, so clocks further apart than a collective lasts share none: then all columns are NULL.
with shared as (
    select run_id, instance, host, first_arrival_ps, last_arrival_ps, last_end_ps
    from _meeting_v1
    where not is_async and host is not null
        and kind in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
),

hosts as (
    select run_id, host, count(*) as devices
    from devices
    where traced
    group by run_id, host
),

shared_references as (
    select run_id, min(host) as host
    from shared
    group by run_id
),

reference_hosts as (
    select
        h.run_id,
        coalesce(min(s.host), case when count(*) = 1 then min(h.host) end) as host
    from hosts as h
    left join shared_references as s on s.run_id = h.run_id
    group by h.run_id
),

-- Already one row an instance of the reference host; the grouping keeps DuckDB from making all
-- pairs of hosts first.
reference_ends as (
    select
        s.run_id, s.instance,
        max(s.last_end_ps) as last_end_ps,
        max(s.first_arrival_ps) as first_arrival_ps,
        max(s.last_arrival_ps) as last_arrival_ps
    from shared as s
    inner join reference_hosts as f on f.run_id = s.run_id and f.host = s.host
    group by s.run_id, s.instance
),

pairs as (
    select
        h.run_id, h.host,
        h.last_end_ps - r.last_end_ps as offset_ps,
        h.first_arrival_ps, h.last_arrival_ps,
        r.first_arrival_ps as reference_first_ps,
        r.last_arrival_ps as reference_last_ps
    from shared as h
    inner join reference_ends as r on r.run_id = h.run_id and r.instance = h.instance
),

placed as (
    select
        *,
        row_number() over (partition by run_id, host order by offset_ps) as place,
        count(*) over (partition by run_id, host) as places
    from pairs
),

offsets as (
    select
        run_id, host,
        max(places) as instances,
        max(case when place = (50 * places + 99) // 100 then offset_ps end) as offset_ps,
        case
            when max(places) > 1
                then max(case when place = (95 * places + 99) // 100 then offset_ps end)
                    - max(case when place = (5 * places + 99) // 100 then offset_ps end)
        end as spread_ps
    from placed
    group by run_id, host
),

skews as (
    select
        p.run_id, p.host,
        greatest(p.last_arrival_ps - o.offset_ps, p.reference_last_ps)
        - least(p.first_arrival_ps - o.offset_ps, p.reference_first_ps) as skew_ps
    from pairs as p
    inner join offsets as o on o.run_id = p.run_id and o.host = p.host
),

placed_skews as (
    select
        *,
        row_number() over (partition by run_id, host order by skew_ps) as place,
        count(*) over (partition by run_id, host) as places
    from skews
),

median_skews as (
    select
        run_id, host,
        max(case when place = (50 * places + 99) // 100 then skew_ps end) as median_skew_ps
    from placed_skews
    group by run_id, host
),

measured as (
    select
        h.run_id, h.host, h.devices,
        f.host as reference_host,
        coalesce(o.instances, 0) as instances,
        coalesce(h.host = f.host, false) as is_reference,
        o.offset_ps, o.spread_ps, s.median_skew_ps
    from hosts as h
    inner join reference_hosts as f on f.run_id = h.run_id
    left join offsets as o on o.run_id = h.run_id and o.host = h.host
    left join median_skews as s on s.run_id = h.run_id and s.host = h.host
)

select
    -- run
    run_id,
    -- host; NULL where the trace does not name it
    host,
    -- its traced devices
    cast(devices as bigint) as devices,
    -- host whose clock it is compared with; NULL where hosts share no instance
    reference_host,
    -- instances that both took part in; of the reference host itself, those shared with any host
    cast(instances as bigint) as instances,
    -- median by which its clock is later; 0 on the reference host
    cast(case when is_reference then 0 else offset_ps end as bigint) as offset_ps,
    -- 5th to 95th percentile of the offset
    cast(case when is_reference then 0 else spread_ps end as bigint) as spread_ps,
    -- latest less earliest arrival on both hosts, offset subtracted, median
    cast(case when not is_reference then median_skew_ps end as bigint) as median_skew_ps,
    -- skews between the two hosts are at least as large as the spread of their clocks
    case when is_reference then true else spread_ps <= median_skew_ps end as is_usable
from measured
