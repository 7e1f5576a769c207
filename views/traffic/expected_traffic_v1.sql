-- one row per run, phase, axis and kind of collective that is expected or measured
-- Traffic of a forward pass by model, mesh, batch and lengths alone, beside the measured traffic. Both
-- are sums over traced devices and passes: a ratio other than 1 is a compiler (or a program) that moves
-- other bytes. rows = a device's sequences x tokens of the pass; L layers; a device moves in a pass
--   tp: all-reduces of [rows, hidden], 1 for the embedding and 2 a layer, and an all-gather of
--     [sequences, vocabulary], the logits of the last position;
--   sp: in decode the same; in prefill reduce-scatters for these all-reduces, and as many all-gathers:
--     2 a layer and 1 after the last norm, beside that of the logits;
--   ep: 2 all-to-alls a layer with experts, of [experts, places, hidden]: places = rows x chosen /
--     experts x capacity factor, rounded up, at most rows;
--   fsdp: an all-gather of every matrix, of which tp and ep leave a device its part; one that is
--     embedding and head is gathered for each;
--   pp, stacked: m + p - 1 permutes of a microbatch's activations (of its part of them in a prefill
--     under sp), which go around, the last stage's to the first; and its layers' collectives as often,
--     on a microbatch's rows; layers ahead of the first stage, embedding and head once on all rows;
--   dp: nothing.
-- Embedding and head are taken to be split over the vocabulary, as xlahouse capture splits them.
-- Warm-up passes count by their step: step 0 is a prefill. Elements have the width of the run's type;
-- XLA computes 2-byte collectives of the CPU in f32, so there they have 4 bytes where f32 was measured.
-- A compiled run has no rows here: planned_traffic has what it moves.
select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- mesh axes joined by +, or none, mixed or unclassified
    axis,
    -- kind of the collective
    kind,
    -- expected collectives, counted on each device; a compiler that combines some moves the same
    -- bytes
    expected_count,
    -- collectives on traced devices
    made_count as measured_count,
    -- expected sum of S; 0: this model on this mesh needs no such collective
    expected_payload_bytes,
    -- measured sum of S; NULL where a part is unknown
    made_payload_bytes as measured_payload_bytes,
    -- measured / expected; NULL where nothing is expected
    cast(made_payload_bytes as double) / nullif(expected_payload_bytes, 0) as ratio,
    -- element type that was measured; NULL for none and for several
    made_dtype as measured_dtype,
    -- why there is no expectation; NULL where there is one
    expected_problem
from _expected_traffic_v1
where not is_compiled
