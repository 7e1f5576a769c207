-- one row per run and request that was seen on clocks that no collective connects
-- Of a marked request, the clocks of the hosts with its markers and of the devices that it ran on. A
-- request whose markers and devices are of clocks that were compared, or of one clock, has no row,
-- though other clocks of the run were not. What is outside every marker makes a row of its own.
with seen as (
    select s.run_id, s.request, c.reference
    from device_steps as s
    inner join devices as d on d.run_id = s.run_id and d.device_id = s.device_id
    inner join clocks as c on c.run_id = d.run_id and c.clock = d.clock
    union all
    select p.run_id, p.request, c.reference
    from phases as p
    inner join clocks as c on c.run_id = p.run_id and c.host = p.host
    where p.source = 'marker'
)

select
    -- run
    run_id,
    -- request
    request
from seen
group by run_id, request
having min(reference) <> max(reference)
