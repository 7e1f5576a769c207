"""The opcodes of HLO. A program that holds another one was made by a later compiler."""

from __future__ import annotations

from xlahouse.ingest.hlo.transfer import split_role

# hlo_opcode.h of openxla/xla; of the forms -start, -update and -done only the part before.
_OPCODES = frozenset(
    (
        "abs", "acos", "acosh", "add", "add-dependency", "after-all", "all-gather", "all-reduce",
        "all-to-all", "and", "asin", "asinh", "async", "atan2", "atanh", "batch-norm-grad",
        "batch-norm-inference", "batch-norm-training", "bitcast", "bitcast-convert", "broadcast",
        "call", "cbrt", "ceil", "cholesky", "clamp", "collective-broadcast", "collective-permute",
        "compare", "complex", "concatenate", "conditional", "constant", "convert", "convolution",
        "copy", "cosine", "cosh", "count-leading-zeros", "custom-call", "divide", "domain", "dot",
        "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "erf", "exponential",
        "exponential-minus-one", "fft", "floor", "fusion", "gather", "get-dimension-size",
        "get-tuple-element", "imag", "infeed", "iota", "is-finite", "log", "log-plus-one", "logistic",
        "map", "maximum", "minimum", "multiply", "negate", "not", "opt-barrier", "or", "outfeed", "pad",
        "parameter", "partition-id", "popcnt", "power", "ragged-all-to-all", "ragged-dot", "real",
        "recv", "reduce", "reduce-precision", "reduce-scatter", "reduce-window", "remainder",
        "replica-id", "reshape", "reverse", "rng", "rng-bit-generator", "rng-get-and-update-state",
        "round-nearest-afz", "round-nearest-even", "rsqrt", "scaled-dot", "scan", "scatter", "select",
        "select-and-scatter", "send", "set-dimension-size", "shift-left", "shift-right-arithmetic",
        "shift-right-logical", "sign", "sine", "sinh", "slice", "sort", "sqrt", "stochastic-convert",
        "subtract", "tan", "tanh", "topk", "transpose", "triangular-solve", "tuple", "while", "xor",
    )
)  # fmt: skip


def is_opcode(opcode: str) -> bool:
    """Whether it is an opcode of HLO, or a form of one that text has, as `slice-start`."""
    return split_role(opcode)[0] in _OPCODES
