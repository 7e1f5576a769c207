"""Tables about a run itself: its row, its devices, its phases."""

from __future__ import annotations

from xlahouse.ingest.schema_shared import SPAN_COLUMNS, STEP_COLUMNS
from xlahouse.ingest.table import Table, columns_of

RUNS = (
    Table(
        "runs",
        "run",
        columns_of("""
run_id str hash of the trace files' contents and the manifest
name str name of the run: the manifest's, else the trace's
captured_at time when profiling started
framework str torch_xla, jax, …
framework_versions str JSON object of package versions
model str model
model_family str architecture, such as qwen3
setup str hash of all settings except the repeat
setup_besides_mesh str the same without the mesh and all that follows from it; NULL in runs of older versions
layers int layers of the model
hidden_size int width of the residual stream
dtype str type of weights and activations
batch_size int sequences in a batch, over all devices
microbatches int microbatches that a batch is split into
prompt_tokens int tokens of a prompt
output_tokens int tokens generated for a sequence, the first included
parallelism str label, such as tp2.pp2
mesh mesh axes of the device mesh, major to minor
mesh_device_ids ints device ids in mesh order; NULL: ascending
device_kind str such as TPU v6 Lite or cpu
device_count int devices traced
expected_device_count int devices that the manifest or the programs name
host_count int hosts traced
source str xplane or chrome (measured), compiled (programs that did not run), predicted (by a replay)
source_files source_files files that were read
epoch_ns int UNIX time of time zero, ns; NULL where unknown
duration_ps int from the first to the end of the last event
status str complete, partial or no_device_events
measured_ttft_s float host clock, mean over requests
measured_tpot_s float host clock, mean over requests
ingest_version int version of the ingest that wrote the run
ingested_at time when the run was ingested
options str JSON object of the ingest options that shaped the tables
manifest str the manifest, whole, as JSON
files files the run's Parquet files, relative to the warehouse: nothing else belongs to the run
file_crcs ints CRC-32 of the bytes of each of files, in their order; NULL on an object store
parameters int weights of the model
active_parameters int of these, the ones a token passes through; NULL where the experts are not known
weight_bytes int bytes of all weights, each counted once
kv_bytes_per_token int bytes of keys and values of one token of one sequence
attention_pair_flops float FLOPs of attention for one token and one token of its context, over all layers
vocab_size int tokens of the vocabulary
expert_layers int layers whose feed-forward network consists of experts; 0 in a model without experts
experts int experts of such a layer, the shared ones left out
experts_per_token int of these, the ones that a token is sent to
capacity_factor float places of an expert over its fair share; no drops at experts / experts_per_token
stage_layers int layers that a stage of a stacked pipeline holds; NULL without one
tensor_weights int weights of matrices that a tensor axis splits, but the experts'; a tied head counts again
whole_weights int weights of matrices that no tensor axis splits; vectors and routers left out
expert_weights int weights of experts
head_weights int weights of the output head, and as many of the embedding; NULL where not known
lookup_weights int weights of an embedding that is only looked up; 0 where the head is tied to it
logit_positions int positions of a sequence whose logits a prefill computes; NULL where not stated
weight_matrices int matrices of these weights; all experts' gate and up are one, their down is one
workload str training, inference or serving: as the workload card says; a capture's is inference
iterations int forward passes that were profiled, or a workload card's iterations
card str the workload card that facts were taken from, as JSON; NULL without one
parent_run_id str of a predicted run, the run that was replayed; NULL of a measured one
change str of a predicted run, what was changed, such as ici=2x, no-skew; NULL of a measured one
"""),
    ),
    Table(
        "devices",
        "device that the run names, traced or only a member of a replica group",
        columns_of("""
run_id str run
device_id int device, unique across hosts and processes
world int processes whose programs share device numbers
logical_id int number by which replica groups name it in its world
traced bool whether the trace has its events
host str host
process int process on the host
clock str clock of its events, a row of table clocks; NULL where it is not traced
plane str plane that it was read from
local_ordinal int number within the host
kind str such as TPU v6 Lite or cpu
core str tensorcore, sparsecore, gpu or cpu
chip_id int global number of its chip
slice_index int slice of TPUs that it is in, from 0; NULL where neither programs nor the manifest tell it
coords ints coordinates of its chip, from the manifest: traces lack them
peak_flops float peak FLOP/s
peak_hbm_bytes_per_s float peak HBM bandwidth
peak_ici_bytes_per_s float peak bandwidth of one ICI link, one way
peaks_source str trace or table
inferred bool identity was deduced: a virtual CPU device whose ops do not state theirs
"""),
        ("device_id",),
    ),
    Table(
        "phases",
        "marked interval",
        columns_of(f"""
run_id str run
host str host
{STEP_COLUMNS}{SPAN_COLUMNS}
source str marker, module, manifest or server: a server's step, or a request from its first to its last step
requests int how many requests a server's step serves, as its name states; NULL for all other markers
tokens int tokens of all of them in the step
least_prompt_tokens int of these, the ones that are known to be of prompts
most_prompt_tokens int of these, all but the ones that are known not to be of prompts
"""),
        ("start_ps",),
    ),
    Table(
        "step_requests",
        "request that a server serves in a step, on a host",
        columns_of("""
run_id str run
host str host
step int step of the server, as in phases and device_steps, where request is NULL
request int number of the request: its id where all ids are numbers, else by first appearance
request_id str its id as traced
tokens int its tokens in the step; NULL where the trace does not tell
prompt_tokens int of these, the ones of its prompt; NULL where the trace does not tell
is_first bool its first step; NULL where it may have begun before, unseen
is_last bool its last step; NULL where it may go on, unseen
may_skip bool a step between its previous step and this one lacks ids: it may have been in it
"""),
        ("step", "request"),
    ),
    Table(
        "served_requests",
        "request that a server serves, over all of its steps in step_requests",
        columns_of("""
run_id str run
request int number of the request
request_id str its id as traced
first_step int first step that names it
last_step int last step that names it
token_step int step that completes its prompt and gives its first token; NULL where the trace does not tell
steps int steps that name it
is_begun bool it is seen to begin
is_ended bool it is seen to end
lacks_tokens bool a step does not state its tokens
may_skip bool a step between lacks ids: it may have been in it
seen_decode bool a step has tokens of it, and none of its prompt
decode_steps int steps after its first one with tokens, and none of its prompt
decode_tokens int tokens in them; NULL where tokens between its first and last one are not known
output_tokens int output tokens in its steps; NULL where the trace does not tell
"""),
        ("request",),
    ),
    Table(
        "kv_transfers",
        "transfer of a request's keys and values between a server that prefills and one that decodes",
        columns_of("""
run_id str run
host str host
thread str thread, as in host_events
kind str pull: this host fetches them; await_pull: this host offers them
request int number of the request, as in step_requests; NULL where no step names it
request_id str its id as traced
uuid str number of the transfer, the same on both sides
bytes int bytes of keys and values, as the server computes them
dimensions str layers, blocks and sizes of a block
source str where a pull fetches from
start_ps int start of the host's call
duration_ps int length of the host's call: the transfer itself may take longer
"""),
        ("start_ps",),
    ),
    Table(
        "clocks",
        "clock: that of the process that wrote a trace file",
        columns_of("""
run_id str run
clock str name: the host where it has one clock, else the file without its ending
host str host
world int world of its devices
reference str clock that it is measured against; itself on a reference
clock_offset_ps int how much later it was than the reference at time zero; subtracted in all tables
drift_ppm float microseconds that it gains a second; subtracted in all tables. 0 with fewer than three pairs
spread_ps int 5th to 95th percentile of the residuals of the ends that both clocks share
pairs int ends that both clocks share
evidence str how launches were matched: sequence number, step marker, time or setting; NULL: they were not
state str reference, aligned, ambiguous (several offsets fit) or unconnected (nothing shared)
"""),
    ),
)
