-- one row per run whose clocks cannot be compared
-- How far some are apart is ambiguous; or no collective connects them, and their files do not even
-- state when the profiles started. Stated times, which are good to about a millisecond, place what
-- the files hold beside each other; a request that was seen in several of them has no latency all the
-- same (_request_apart_v1).
select
    -- run
    c.run_id,
    -- clocks that cannot be compared with the others
    cast(count(*) as bigint) as clocks
from clocks as c
inner join runs as r on r.run_id = c.run_id
where c.state = 'ambiguous' or (c.state = 'unconnected' and r.epoch_ns is null)
group by c.run_id
