-- one row per name under which a kind of chip is known
-- The shipped table. Names are lower case without blanks. A number without a source is not here:
-- no peaks are given for TPU v2, none for GPUs.
with chips as (
    select * from (
        values
        ('v2', 2, null, null, null, null, null),
        (
            'v3', 2, 1.4e14, 9.0e11, 1e11,
            'jax-ml/scaling-book, tpus', 'jax-ml/scaling-book, tpus'
        ),
        (
            'v4', 1, 2.75e14, 1.2e12, 4.5e10,
            'jax-ml/scaling-book, tpus', 'jax-ml/scaling-book, tpus'
        ),
        (
            'v5e', 1, 1.97e14, 8.1e11, 4.5e10,
            'jax-ml/scaling-book, tpus', 'jax-ml/scaling-book, tpus'
        ),
        (
            'v5p', 1, 4.59e14, 2.8e12, 9e10,
            'jax-ml/scaling-book, tpus', 'jax-ml/scaling-book, tpus'
        ),
        (
            'v6e', 1, 9.18e14, 1.6e12, 9e10,
            'Google Cloud, TPU v6e page', 'jax-ml/scaling-book, tpus'
        ),
        (
            '7x', 2, 2.307e15, 7.38e12, 1e11,
            'Google Cloud, TPU7x page (bf16)', 'Google Cloud, TPU7x page'
        )
    ) as rows_of (
        generation, devices_per_chip, flops_per_s, hbm_bytes_per_s, ici_bytes_per_s,
        flops_source, bandwidth_source
    )
),

names as (
    select * from (
        values
        ('tpuv2', 'v2'), ('tpuv3', 'v3'), ('tpuv4', 'v4'),
        ('tpuv5lite', 'v5e'), ('tpuv5e', 'v5e'), ('tpuv5litepod', 'v5e'),
        ('tpuv5', 'v5p'), ('tpuv5p', 'v5p'),
        ('tpuv6lite', 'v6e'), ('tpuv6e', 'v6e'),
        ('tpu7x', '7x'), ('tpuv7x', '7x'), ('tpuv7', '7x')
    ) as rows_of (kind_name, generation)
)

select
    -- kind of device in lower case, without blanks
    n.kind_name,
    -- generation of the chip
    c.generation,
    -- devices that share a chip
    cast(c.devices_per_chip as bigint) as devices_per_chip,
    -- bf16 FLOP/s of a chip
    cast(c.flops_per_s as double) as flops_per_s,
    -- HBM bandwidth of a chip
    cast(c.hbm_bytes_per_s as double) as hbm_bytes_per_s,
    -- bandwidth of one ICI link, one way
    cast(c.ici_bytes_per_s as double) as ici_bytes_per_s,
    -- where the FLOP/s come from
    c.flops_source,
    -- where both bandwidths come from
    c.bandwidth_source
from names as n
inner join chips as c on c.generation = n.generation
