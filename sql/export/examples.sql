-- Which runs are there, and were their traces read whole?
select name, parallelism, device_kind, device_count, status
from runs
order by captured_at, name;

-- How does sharding change latency?
select name, parallelism, ttft_s, tpot_s, output_tokens_per_s
from run_summary
order by tpot_s;

-- How much does each parallelism send, in which phase?
select name, axis, kind, phase, sum(collectives) as collectives, sum(wire_bytes) as wire_bytes
from traffic_volume join runs using (run_id)
group by all
order by all;

-- Which devices exchange one run's traffic?
select source_device_id, target_device_id, sum(bytes) as bytes
from traffic_matrix join runs using (run_id)
where name = $run and algorithm = 'ring'
group by all
order by bytes desc;

-- Which decode steps took longest?
select request, step, latency_s
from step_latency join runs using (run_id)
where name = $run and step > 0
order by latency_s desc
limit 10;

-- How much of the communication is hidden behind compute?
select name, phase, comm_compute_ratio
from comm_compute join runs using (run_id)
order by name, phase;

-- Which device waits most?
select device_id, sum(sync_wait_ps) / 1e12 as sync_wait_s, sum(idle_ps) / 1e12 as idle_s
from device_time join runs using (run_id)
where name = $run
group by device_id
order by sync_wait_s desc;

-- What bandwidth do large collectives reach?
select kind, axis, group_size, payload_bytes, busbw_bytes_per_s
from collective_bandwidth join runs using (run_id)
where name = $run
order by payload_bytes desc
limit 20;

-- Which collective instructions belong to which axis of the mesh?
select distinct op, axis, group_size
from collective_axis join runs using (run_id)
where name = $run
order by axis, op;

-- What are the coordinates of each device in the mesh?
select device_id, axis, coordinate
from run_mesh join runs using (run_id)
where name = $run
order by device_id, axis;

-- Which peaks do utilizations use, and what is their source?
select distinct hardware_peaks.device_kind, peak_flops_per_s, peak_hbm_bytes_per_s, peaks_source
from hardware_peaks join runs using (run_id)
where name = $run;

-- What are TTFT and TPOT of each request?
select request, latency.source, ttft_s, tpot_s, p50_step_s, p99_step_s
from latency join runs using (run_id)
where name = $run
order by request;

-- Which ops have the most self time?
select module, op, hlo_category, count(*) as occurrences, sum(self_ps) / 1e12 as self_s
from ops join runs using (run_id)
where name = $run
group by all
order by self_s desc
limit 20;

-- Which findings does the data have?
select name, severity, code, message, count
from issues join runs using (run_id)
order by severity, name;
