-- one row per run and scope of transfers
-- The scopes of traffic_burst: 0 device, 1 run, 2 group, 3 rail. line_key is their key by the scheme of
-- _run_key_v1.
select
    -- run
    r.run_id,
    -- device, run, group or rail
    s.scope,
    -- key of run and scope
    cast(r.run_key + s.scope_number as bigint) as line_key
from _run_key_v1 as r
cross join (
    values ('device', 0), ('run', 1), ('group', 2), ('rail', 3)
) as s (scope, scope_number)
