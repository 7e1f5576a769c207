-- one row per run with a clock for which several offsets fit
-- Nothing is compared across such a clock.
select
    -- run
    run_id
from clocks
where state = 'ambiguous'
group by run_id
