-- one row per run and kind of collective with a bandwidth by CCL-Bench
-- The median over synchronous transfers. A group is the events that share a key, and its size the number of their
-- processes.
with grouped as (
    select
        run_id, device_id, hlo_category,
        case when hlo_category = 'all-reduce' then '' else name end as group_key
    from _ccl_total_v1
    where hlo_category in ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all')
),

sizes as (
    select run_id, hlo_category, group_key, count(distinct device_id) as members
    from grouped
    group by run_id, hlo_category, group_key
),

rates as (
    select
        t.run_id, t.hlo_category,
        cast(t.bytes_accessed as double) / 1073741824e0
        * case when t.hlo_category = 'all-reduce' then 2 else 1 end
        * cast(s.members - 1 as double) / nullif(cast(s.members as double), 0)
        / nullif(cast(t.duration_ps as double) / 1e12, 0) as rate
    from _ccl_chosen_event_v1 as t
    inner join sizes as s
        on s.run_id = t.run_id and s.hlo_category = t.hlo_category
        and s.group_key = case when t.hlo_category = 'all-reduce' then '' else t.name end
    where t.bytes_accessed > 0 and t.duration_ps > 0
),

ranked as (
    select
        run_id, hlo_category, rate,
        row_number() over (partition by run_id, hlo_category order by rate) as place,
        count(*) over (partition by run_id, hlo_category) as places
    from rates
)

select
    -- run
    run_id,
    -- kind, as XLA's category
    hlo_category,
    -- median, in 2^30 bytes per second
    avg(rate) as rate
from ranked
where place = (places + 1) // 2 or place = (places + 2) // 2
group by run_id, hlo_category
