"""The set of HLO operations, spelled as in HLO text, and the families that the IR itself needs."""

from enum import StrEnum
from typing import Final


class Opcode(StrEnum):
    """One member per HLO operation; the value is its spelling in HLO text and protobuf."""

    ABS = "abs"
    ACOS = "acos"
    ACOSH = "acosh"
    ADD = "add"
    ADD_DEPENDENCY = "add-dependency"
    AFTER_ALL = "after-all"
    ALL_GATHER = "all-gather"
    ALL_GATHER_DONE = "all-gather-done"
    ALL_GATHER_START = "all-gather-start"
    ALL_REDUCE = "all-reduce"
    ALL_REDUCE_DONE = "all-reduce-done"
    ALL_REDUCE_START = "all-reduce-start"
    ALL_TO_ALL = "all-to-all"
    AND = "and"
    ASIN = "asin"
    ASINH = "asinh"
    ASYNC_DONE = "async-done"
    ASYNC_START = "async-start"
    ASYNC_UPDATE = "async-update"
    ATAN2 = "atan2"
    ATANH = "atanh"
    BATCH_NORM_GRAD = "batch-norm-grad"
    BATCH_NORM_INFERENCE = "batch-norm-inference"
    BATCH_NORM_TRAINING = "batch-norm-training"
    BITCAST = "bitcast"
    BITCAST_CONVERT = "bitcast-convert"
    BROADCAST = "broadcast"
    CALL = "call"
    CBRT = "cbrt"
    CEIL = "ceil"
    CHOLESKY = "cholesky"
    CLAMP = "clamp"
    COLLECTIVE_BROADCAST = "collective-broadcast"
    COLLECTIVE_PERMUTE = "collective-permute"
    COLLECTIVE_PERMUTE_DONE = "collective-permute-done"
    COLLECTIVE_PERMUTE_START = "collective-permute-start"
    COMPARE = "compare"
    COMPLEX = "complex"
    CONCATENATE = "concatenate"
    CONDITIONAL = "conditional"
    CONSTANT = "constant"
    CONVERT = "convert"
    CONVOLUTION = "convolution"
    COPY = "copy"
    COPY_DONE = "copy-done"
    COPY_START = "copy-start"
    COSH = "cosh"
    COSINE = "cosine"
    COUNT_LEADING_ZEROS = "count-leading-zeros"
    CUSTOM_CALL = "custom-call"
    DIVIDE = "divide"
    DOMAIN = "domain"
    DOT = "dot"
    DYNAMIC_RESHAPE = "dynamic-reshape"
    DYNAMIC_SLICE = "dynamic-slice"
    DYNAMIC_UPDATE_SLICE = "dynamic-update-slice"
    ERF = "erf"
    EXPONENTIAL = "exponential"
    EXPONENTIAL_MINUS_ONE = "exponential-minus-one"
    FFT = "fft"
    FLOOR = "floor"
    FUSION = "fusion"
    GATHER = "gather"
    GET_DIMENSION_SIZE = "get-dimension-size"
    GET_TUPLE_ELEMENT = "get-tuple-element"
    IMAG = "imag"
    INFEED = "infeed"
    IOTA = "iota"
    IS_FINITE = "is-finite"
    LOG = "log"
    LOG_PLUS_ONE = "log-plus-one"
    LOGISTIC = "logistic"
    MAP = "map"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    MULHI = "mulhi"
    MULTIPLY = "multiply"
    NEGATE = "negate"
    NOT = "not"
    OPTIMIZATION_BARRIER = "opt-barrier"
    OR = "or"
    OUTFEED = "outfeed"
    PAD = "pad"
    PARAMETER = "parameter"
    PARTITION_ID = "partition-id"
    POPULATION_COUNT = "popcnt"
    POWER = "power"
    RAGGED_ALL_TO_ALL = "ragged-all-to-all"
    RAGGED_DOT = "ragged-dot"
    REAL = "real"
    RECV = "recv"
    RECV_DONE = "recv-done"
    REDUCE = "reduce"
    REDUCE_PRECISION = "reduce-precision"
    REDUCE_SCATTER = "reduce-scatter"
    REDUCE_WINDOW = "reduce-window"
    REMAINDER = "remainder"
    REPLICA_ID = "replica-id"
    RESHAPE = "reshape"
    REVERSE = "reverse"
    RNG = "rng"
    RNG_BIT_GENERATOR = "rng-bit-generator"
    RNG_GET_AND_UPDATE_STATE = "rng-get-and-update-state"
    ROUND_NEAREST_AFZ = "round-nearest-afz"
    ROUND_NEAREST_EVEN = "round-nearest-even"
    RSQRT = "rsqrt"
    SCALED_DOT = "scaled-dot"
    SCAN = "scan"
    SCATTER = "scatter"
    SELECT = "select"
    SELECT_AND_SCATTER = "select-and-scatter"
    SEND = "send"
    SEND_DONE = "send-done"
    SET_DIMENSION_SIZE = "set-dimension-size"
    SHIFT_LEFT = "shift-left"
    SHIFT_RIGHT_ARITHMETIC = "shift-right-arithmetic"
    SHIFT_RIGHT_LOGICAL = "shift-right-logical"
    SIGN = "sign"
    SINE = "sine"
    SINH = "sinh"
    SLICE = "slice"
    SORT = "sort"
    SQRT = "sqrt"
    STOCHASTIC_CONVERT = "stochastic-convert"
    SUBTRACT = "subtract"
    TAN = "tan"
    TANH = "tanh"
    TOPK = "topk"
    TRANSPOSE = "transpose"
    TRIANGULAR_SOLVE = "triangular-solve"
    TUPLE = "tuple"
    WHILE = "while"
    XOR = "xor"


ASYNC: Final = frozenset({Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE})
"""The generic asynchronous operations, which wrap a computation with one instruction."""

CONTROL_FLOW: Final = frozenset({Opcode.CALL, Opcode.CONDITIONAL, Opcode.WHILE})
"""The operations that run computations in their own place."""

CALLERS: Final = CONTROL_FLOW | {Opcode.ASYNC_START}
"""The operations that run computations which own buffers.

async-update and async-done name the computation of their async-start again; it runs there.
"""

STARTS: Final = frozenset(
    {
        *(Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE_START, Opcode.ASYNC_START),
        *(Opcode.COLLECTIVE_PERMUTE_START, Opcode.COPY_START),
    }
)
"""The operations that only begin something, sends and receives left out."""

ENDS: Final = frozenset(
    {
        *(Opcode.ALL_GATHER_DONE, Opcode.ALL_REDUCE_DONE, Opcode.ASYNC_DONE, Opcode.ASYNC_UPDATE),
        *(Opcode.COLLECTIVE_PERMUTE_DONE, Opcode.COPY_DONE, Opcode.RECV_DONE, Opcode.SEND_DONE),
    }
)
"""The operations that go on with what their operand has begun, and touch its buffers until then."""

COLLECTIVES: Final = frozenset(
    {
        *(Opcode.ALL_GATHER, Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START),
        *(Opcode.ALL_TO_ALL, Opcode.COLLECTIVE_BROADCAST, Opcode.COLLECTIVE_PERMUTE),
        *(Opcode.COLLECTIVE_PERMUTE_START, Opcode.RAGGED_ALL_TO_ALL, Opcode.REDUCE_SCATTER),
    }
)
"""The operations that the devices of a group run, or begin, together."""

OVER_PARTITIONS: Final = frozenset(
    {Opcode.ALL_TO_ALL, Opcode.COLLECTIVE_BROADCAST, Opcode.RAGGED_ALL_TO_ALL}
)
"""Those that a channel spreads over partitions only: they have no flag for global numbers."""

NATIVE_ASYNC_BASES: Final = frozenset(
    {"all-gather", "all-reduce", "collective-permute", "copy", "recv", "send"}
)
"""Operations whose `-start` and `-done` forms are opcodes of their own, not sugar for `async-*`."""

FORMER_OPCODES: Final = {"cross-replica-sum": Opcode.ALL_REDUCE}
"""Names that operations had in modules of old, which said by `to_apply` what they do."""
