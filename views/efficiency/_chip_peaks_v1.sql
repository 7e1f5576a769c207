-- one row per name under which a kind of chip is known
-- The shipped table. Names are lower case without blanks. Every number has a source, so GPUs have
-- none. Sources: scaling-book is jax-ml/scaling-book, chapter tpus; the others are Google's pages
-- on each TPU, and for v2 its designers' article.
with chips as (
    select * from (
        values
        (
            'v2', 2, 4.6e13, 7.0e11, 6.2e10,
            'Jouppi et al., CACM 63(7), 2020', 'Norrie et al., IEEE Micro 41(2), 2021',
            'Norrie et al., IEEE Micro 41(2), 2021: 496 Gbit/s'
        ),
        ('v3', 2, 1.4e14, 9.0e11, 1e11, 'scaling-book', 'scaling-book', 'scaling-book'),
        ('v4', 1, 2.75e14, 1.2e12, 4.5e10, 'scaling-book', 'scaling-book', 'scaling-book'),
        ('v5e', 1, 1.97e14, 8.1e11, 4.5e10, 'scaling-book', 'scaling-book', 'scaling-book'),
        ('v5p', 1, 4.59e14, 2.8e12, 9e10, 'scaling-book', 'scaling-book', 'scaling-book'),
        (
            'v6e', 1, 9.18e14, 1.6e12, 9e10,
            'Google Cloud, TPU v6e page', 'scaling-book', 'scaling-book'
        ),
        (
            '7x', 2, 2.307e15, 7.38e12, 1e11,
            'Google Cloud, TPU7x page (bf16; fp8 twice that)', 'Google Cloud, TPU7x page',
            'Google Cloud, TPU7x page'
        )
    ) as rows_of (
        generation, devices_per_chip, flops_per_s, hbm_bytes_per_s, ici_bytes_per_s,
        flops_source, hbm_source, ici_source
    )
),

names as (
    select * from (
        values
        ('tpuv2', 'v2'), ('v2', 'v2'), ('tpuv3', 'v3'), ('v3', 'v3'), ('tpuv4', 'v4'), ('v4', 'v4'),
        ('tpuv5lite', 'v5e'), ('tpuv5e', 'v5e'), ('tpuv5litepod', 'v5e'), ('v5e', 'v5e'),
        ('v5litepod', 'v5e'), ('tpuv5', 'v5p'), ('tpuv5p', 'v5p'), ('v5p', 'v5p'),
        ('tpuv6lite', 'v6e'), ('tpuv6e', 'v6e'), ('v6e', 'v6e'),
        ('tpu7x', '7x'), ('tpuv7x', '7x'), ('tpuv7', '7x'), ('v7x', '7x')
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
    -- source of the FLOP/s
    c.flops_source,
    -- source of the HBM bandwidth
    c.hbm_source,
    -- source of the link's bandwidth
    c.ici_source
from names as n
inner join chips as c on c.generation = n.generation
