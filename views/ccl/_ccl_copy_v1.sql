-- one row per copy that one of CCL-Bench's two pairings makes of a start and a done
-- Both pair by the number in the name, in the order of the file, device by device: `any` pairs a done with the half
-- before it, `sized` with the one before it among those with bytes, and counts bytes.
with halves as (
    select
        run_id, copy_half, copy_number, bytes_accessed, start_ps,
        row_number() over (
            partition by run_id, copy_number order by device_id, start_ps, name desc, line
        ) as place
    from _ccl_chosen_event_v1
    where copy_half <> '' and device_id is not null
),

overwritten as (
    select
        *,
        lag(copy_half) over (partition by run_id, copy_number order by place) as half_before,
        lag(start_ps) over (partition by run_id, copy_number order by place) as before_ps
    from halves
),

sized as (
    select
        *,
        lag(copy_half) over (partition by run_id, copy_number order by place) as half_before,
        lag(start_ps) over (partition by run_id, copy_number order by place) as before_ps,
        lag(bytes_accessed) over (partition by run_id, copy_number order by place) as bytes_before
    from halves
    where copy_half = 'done' or bytes_accessed is not null
),

paired as (
    select
        run_id, 'any' as pairing, before_ps as start_ps, start_ps as end_ps,
        cast(null as bigint) as copied_bytes
    from overwritten
    where copy_half = 'done' and half_before = 'start' and start_ps > before_ps
    union all
    select run_id, 'sized', before_ps, start_ps, bytes_before
    from sized
    where copy_half = 'done' and half_before = 'start' and start_ps > before_ps and bytes_before > 0
)

select
    -- run
    run_id,
    -- any or sized
    pairing,
    -- start of the start
    start_ps,
    -- start of the done
    end_ps,
    -- bytes that the start states; NULL by the pairing `any`
    copied_bytes
from paired
