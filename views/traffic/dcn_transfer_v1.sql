-- one row per transfer between slices of TPUs on a device
-- What each transfer that Megascale carries costs, as xprof's Megascale table has it. It begins with
-- its send and is complete with its recv-done. stall is the time in which its send, recv, send-done
-- and recv-done run: the device computes nothing then. slack is the time that the network has: from
-- the start of the send to the start of the recv-done, less the time in which sends, recvs and their
-- dones run, of any transfer. required_bytes_per_s is the rate at which the transfer ends within its
-- slack, so that no done would wait. The k-th ops of a transfer belong together where a launch has
-- equally many of each; else stall and slack are NULL. Events of
-- the Megascale Trace plane are linked by the rendezvous in their name and by time: those that only
-- touch the time in flight are not. The host may send for several devices at once.
with sliced as (
    select run_id, world, program_id, op, slice_count
    from instructions
    where slice_count is not null
),

transfers as (
    select
        c.*, d.host,
        coalesce(c.group_size, s.slice_count) as slices
    from _collective_wire_v1 as c
    inner join collectives as t
        on t.run_id = c.run_id and t.device_id = c.device_id and t.program_id = c.program_id
        and t.op = c.op and t.start_ps = c.start_ps
    inner join devices as d on d.run_id = c.run_id and d.device_id = c.device_id
    left join sliced as s
        on s.run_id = c.run_id and s.world = c.world and s.program_id = c.program_id
        and s.op = c.op
    where t.over_dcn
),

sized as (
    select
        *,
        case
            when wire_bytes is not null then wire_bytes
            when kind = 'all-reduce'
                then 2 * (slices - 1) * cast(payload_bytes as double) / nullif(slices, 0)
            when kind in ('all-gather', 'reduce-scatter', 'all-to-all')
                then (slices - 1) * cast(payload_bytes as double) / nullif(slices, 0)
            when kind = 'send-recv' then cast(payload_bytes as double)
        end as sent_bytes
    from transfers
),

started as (
    select run_id, world, program_id, op
    from transfers
    group by run_id, world, program_id, op
),

named as (
    select i.run_id, i.world, i.program_id, i.rendezvous
    from instructions as i
    inner join started as t
        on t.run_id = i.run_id and t.world = i.world and t.program_id = i.program_id
        and t.op = i.op
    where i.rendezvous is not null
    group by i.run_id, i.world, i.program_id, i.rendezvous
),

stated as (
    select i.run_id, i.world, i.program_id, i.op, i.opcode, i.operands, i.rendezvous
    from instructions as i
    where i.opcode in ('send', 'recv', 'send-done', 'recv-done')
),

-- A dump states the rendezvous of sends and recvs alone: a done has that of its operand.
parts as (
    select
        s.run_id, s.world, s.program_id, s.op, s.opcode, n.rendezvous
    from stated as s
    left join stated as o
        on o.run_id = s.run_id and o.world = s.world and o.program_id = s.program_id
        and o.op = s.operands and s.opcode in ('send-done', 'recv-done')
    inner join named as n
        on n.run_id = s.run_id and n.world = s.world and n.program_id = s.program_id
        and n.rendezvous = coalesce(s.rendezvous, o.rendezvous)
),

events as (
    select
        o.run_id, o.device_id, o.program_id, o.launch, o.op, o.start_ps, o.duration_ps,
        p.rendezvous, p.opcode
    from ops as o
    inner join devices as d on d.run_id = o.run_id and d.device_id = o.device_id
    inner join parts as p
        on p.run_id = o.run_id and p.world = d.world and p.program_id = o.program_id
        and p.op = o.op
),

numbered as (
    select
        *,
        row_number() over (
            partition by run_id, device_id, program_id, launch, rendezvous, opcode
            order by start_ps
        ) as number,
        count(*) over (
            partition by run_id, device_id, program_id, launch, rendezvous, opcode
        ) as of_opcode,
        -- of all transfers of the device, up to the start of this one
        sum(duration_ps) over (
            partition by run_id, device_id order by start_ps, duration_ps
            rows between unbounded preceding and current row
        ) - duration_ps as earlier_ps
    from events
),

checked as (
    select
        *,
        max(of_opcode) over (
            partition by run_id, device_id, program_id, launch, rendezvous
        ) as most,
        min(of_opcode) over (
            partition by run_id, device_id, program_id, launch, rendezvous
        ) as fewest
    from numbered
),

joined as (
    select
        run_id, device_id, program_id, launch, rendezvous, number,
        coalesce(
            max(case when opcode = 'send' then op end), max(case when opcode = 'recv' then op end)
        ) as op,
        max(case when opcode = 'send' then start_ps end) as send_start_ps,
        max(case when opcode = 'recv' then start_ps end) as recv_start_ps,
        max(case when opcode = 'recv-done' then start_ps end) as recv_done_start_ps,
        max(case when opcode = 'send' then earlier_ps end) as before_send_ps,
        max(case when opcode = 'recv-done' then earlier_ps end) as before_recv_done_ps,
        sum(case when opcode = 'send' then duration_ps else 0 end) as send_ps,
        sum(case when opcode = 'recv' then duration_ps else 0 end) as recv_ps,
        sum(case when opcode = 'send-done' then duration_ps else 0 end) as send_done_ps,
        sum(case when opcode = 'recv-done' then duration_ps else 0 end) as recv_done_ps
    from checked
    where most = fewest
    group by run_id, device_id, program_id, launch, rendezvous, number
),

hosted as (
    select run_id, host, start_ps, start_ps + duration_ps as end_ps,
        regexp_extract(name, '^device_[0-9]+_gid_(.*)$', 1) as rendezvous
    from host_events
    where name like 'device%_gid_%'
),

met as (
    select
        t.run_id, t.device_id, t.program_id, t.op, t.start_ps,
        j.rendezvous, j.send_ps, j.recv_ps, j.send_done_ps, j.recv_done_ps, j.recv_done_start_ps,
        j.recv_done_start_ps - j.send_start_ps - (j.before_recv_done_ps - j.before_send_ps)
            as slack_ps
    from transfers as t
    inner join joined as j
        on j.run_id = t.run_id and j.device_id = t.device_id and j.program_id = t.program_id
        and j.op = t.op
        and coalesce(j.send_start_ps, j.recv_start_ps) = t.start_ps
),

on_host as (
    select
        t.run_id, t.device_id, t.program_id, t.op, t.start_ps,
        count(*) as host_events,
        min(h.start_ps) as host_start_ps,
        max(h.end_ps) as host_end_ps
    from transfers as t
    inner join met as m
        on m.run_id = t.run_id and m.device_id = t.device_id and m.program_id = t.program_id
        and m.op = t.op and m.start_ps = t.start_ps
    inner join hosted as h
        on h.run_id = t.run_id and h.host = t.host and h.rendezvous = m.rendezvous
        and h.start_ps < t.start_ps + t.duration_ps and h.end_ps > t.start_ps
    group by t.run_id, t.device_id, t.program_id, t.op, t.start_ps
)

select
    -- run
    t.run_id,
    -- device
    t.device_id,
    -- compiled program
    t.program_id,
    -- name of the program
    t.module,
    -- send that starts it, else recv
    t.op,
    -- name by which Megascale joins its ends; NULL where its ops are not all known
    m.rendezvous,
    -- kind of the collective
    t.kind,
    -- mesh axes joined by +, or none, mixed or unclassified
    t.axis,
    -- phase of its marker; NULL outside every marker
    t.phase,
    -- request; NULL without a marker
    t.request,
    -- forward pass within the request
    t.step,
    -- S
    t.payload_bytes,
    -- slices that it is between: the group's members, else those that the instruction's target
    -- states; NULL where neither is known
    t.slices as slice_count,
    -- bytes that the device sends; NULL where the number of slices is not known
    t.sent_bytes as wire_bytes,
    -- start of the send
    t.start_ps,
    -- from the start of the send to the end of the recv-done
    t.duration_ps as in_flight_ps,
    -- the send runs
    cast(m.send_ps as bigint) as send_ps,
    -- the recv runs
    cast(m.recv_ps as bigint) as recv_ps,
    -- the send-done runs
    cast(m.send_done_ps as bigint) as send_done_ps,
    -- the recv-done runs
    cast(m.recv_done_ps as bigint) as recv_done_ps,
    -- these four together
    cast(m.send_ps + m.recv_ps + m.send_done_ps + m.recv_done_ps as bigint) as stall_ps,
    -- time that the network has without a wait
    cast(m.slack_ps as bigint) as slack_ps,
    -- wire bytes / slack
    t.sent_bytes * 1e12 / nullif(cast(m.slack_ps as double), 0) as required_bytes_per_s,
    -- wire bytes / time in flight
    t.sent_bytes * 1e12 / nullif(cast(t.duration_ps as double), 0) as achieved_bytes_per_s,
    -- events of Megascale on the host that are linked
    cast(coalesce(h.host_events, 0) as bigint) as host_event_count,
    -- from the earliest start to the latest end of these; NULL without
    h.host_end_ps - h.host_start_ps as host_ps,
    -- from the start of the recv-done to the latest end of these; negative where they end before
    h.host_end_ps - m.recv_done_start_ps as host_stall_ps
from sized as t
left join met as m
    on m.run_id = t.run_id and m.device_id = t.device_id and m.program_id = t.program_id
    and m.op = t.op and m.start_ps = t.start_ps
left join on_host as h
    on h.run_id = t.run_id and h.device_id = t.device_id and h.program_id = t.program_id
    and h.op = t.op and h.start_ps = t.start_ps
