-- one row per run whose clocks cannot be compared
-- How far some are apart is ambiguous; or no collective connects them, and their files do not even
-- state when the profiles started. Stated times, which are good to about a millisecond, do to tell when a
-- request is open, and for nothing shorter.
select
    -- run
    c.run_id,
    -- clocks that cannot be compared with the others
    cast(count(*) as bigint) as clocks
from clocks as c
inner join runs as r on r.run_id = c.run_id
where c.state = 'ambiguous' or (c.state = 'unconnected' and r.epoch_ns is null)
group by c.run_id
