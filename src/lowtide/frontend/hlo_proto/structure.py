"""How many operands and called computations each opcode takes in protobuf."""

from __future__ import annotations

from typing import Final

from lowtide.frontend.hlo_proto.fields import FieldError
from lowtide.ir.opcode import Opcode

_ARITIES: Final = {
    0: "constant iota parameter partition-id replica-id rng-get-and-update-state",
    1: (
        "abs acos acosh all-gather-done all-reduce-done asin asinh async-done async-update atanh "
        "bitcast bitcast-convert broadcast cbrt ceil cholesky collective-permute-done convert copy "
        "copy-done copy-start cosh cosine count-leading-zeros domain erf exponential "
        "exponential-minus-one fft floor get-dimension-size get-tuple-element imag infeed is-finite "
        "log log-plus-one logistic negate not opt-barrier popcnt real recv recv-done "
        "reduce-precision reshape reverse rng-bit-generator round-nearest-afz round-nearest-even "
        "rsqrt send-done sign sine sinh slice sqrt tan tanh topk transpose while"
    ),
    2: (
        "add add-dependency and atan2 compare complex divide dot gather maximum minimum mulhi "
        "multiply or outfeed pad power remainder send set-dimension-size shift-left "
        "shift-right-arithmetic shift-right-logical stochastic-convert subtract triangular-solve "
        "xor"
    ),
    3: "batch-norm-training clamp ragged-dot select select-and-scatter",
    4: "scaled-dot",
    5: "batch-norm-grad batch-norm-inference",
}
ARITY: Final = {Opcode(name): n for n, names in _ARITIES.items() for name in names.split()}
"""The number of operands of the opcodes where it is fixed."""

LEAST_OPERANDS: Final = {
    Opcode.CONDITIONAL: 1,
    Opcode.DYNAMIC_RESHAPE: 1,
    Opcode.DYNAMIC_SLICE: 1,
    Opcode.DYNAMIC_UPDATE_SLICE: 2,
    Opcode.CONVOLUTION: 2,
    Opcode.CONCATENATE: 1,
    Opcode.REDUCE: 2,
    Opcode.REDUCE_WINDOW: 2,
    Opcode.SCATTER: 3,
    Opcode.SORT: 1,
}
"""The least number of operands of some opcodes where it is not fixed."""

_CALLS: Final = {
    1: (
        "all-reduce all-reduce-start async-start call fusion map reduce reduce-scatter "
        "reduce-window scan scatter sort"
    ),
    2: "select-and-scatter while",
}
CALLS: Final = {Opcode(name): n for n, names in _CALLS.items() for name in names.split()}
"""The number of called computations of the opcodes where it is fixed and not 0."""

_ANY_CALLS: Final = frozenset(
    {Opcode.CONDITIONAL, Opcode.CUSTOM_CALL, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE}
)


def check_counts(opcode: Opcode, operands: int, called: int) -> None:
    """Raise FieldError where an opcode takes another number of operands or computations."""
    wanted = ARITY.get(opcode)
    if wanted is not None and operands != wanted:
        raise FieldError(f"{opcode.value} takes {wanted} operands, found {operands}", "operand_ids")
    least = LEAST_OPERANDS.get(opcode, 0)
    if operands < least:
        raise FieldError(
            f"{opcode.value} takes at least {least} operands, found {operands}", "operand_ids"
        )
    if opcode in _ANY_CALLS:
        return
    calls = CALLS.get(opcode, 0)
    if called != calls:
        raise FieldError(
            f"{opcode.value} calls {calls} computations, found {called}", "called_computation_ids"
        )
