-- one row per length of a way between chips and hop of it
-- The hops of a way of each length up to 32, to join them by equality.
with digits as (
    select n from (values (0), (1), (2), (3), (4), (5), (6), (7)) as eight (n)
),

numbers as (
    select a.n * 8 + b.n as n
    from digits as a
    cross join digits as b
    where a.n < 4
)

select
    -- hops of the way
    a.n + b.n + 1 as steps,
    -- hop, from 0
    a.n as hop
from numbers as a
cross join numbers as b
