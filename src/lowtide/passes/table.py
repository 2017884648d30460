"""The passes of lowtide by name: the module that holds each, and what it needs to find.

So a pass is loaded when it runs, and it runs where there may be something to do. One that needs
nothing may always do something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import ElementType, Opcode
from lowtide.ir.opcode import STARTS
from lowtide.passes.needs import Needs, Trait, needs
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class ListedPass:
    """The module of a pass, within lowtide, what it needs, and what it takes to be told."""

    module: str
    needs: Needs = ()
    takes: frozenset[str] = frozenset()


_PLANNER: Final = frozenset({"planner"})
_MERGING: Final = frozenset({"scheduler", "target"})

_LOOP: Final = needs([Opcode.WHILE])
_CHOICE: Final = needs([Opcode.CONDITIONAL])
_BARRIER: Final = needs([Opcode.OPTIMIZATION_BARRIER])
_CUSTOM_CALL: Final = needs([Opcode.CUSTOM_CALL])
_REORDERED: Final = needs([Trait.REORDERED])
_ASYNC: Final = needs(STARTS)
_BATCH_NORM: Final = (
    *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
)
_OUTSIDE_CORE: Final = needs(
    [
        *_BATCH_NORM,
        *(Opcode.FFT, Opcode.GATHER, Opcode.LOGISTIC, Opcode.MAP, Opcode.REDUCE_WINDOW, Opcode.RNG),
        *(Opcode.SCALED_DOT, Opcode.SCAN, Opcode.SCATTER),
        *(Trait.MIXED, Trait.SEVERAL_RESULTS, Trait.TOTAL_ORDER),
    ]
)
_QUANTIZED: Final = needs(
    [Opcode.DOT, Opcode.CONVOLUTION], [x for x in ElementType if x.is_integer and x.bits <= 8]
)
_BYTES: Final = needs([ElementType.S8, ElementType.U8])

TABLE: Final[Mapping[str, ListedPass]] = {
    "algsimp": ListedPass("transforms.simplify.algebraic_simplifier"),
    "async-to-sync": ListedPass("transforms.async_to_sync", _ASYNC),
    "attention-fusion": ListedPass(
        "fusion.attention", needs([Trait.SEVERAL_DOTS], [Opcode.REDUCE]), frozenset({"target"})
    ),
    "barrier-operands": ListedPass("transforms.barrier_operands", _BARRIER),
    "call-operands": ListedPass(
        "transforms.call_operands", needs([Opcode.CALL], [Opcode.CONSTANT, Opcode.IOTA])
    ),
    "compress-saved-values": ListedPass("transforms.memory.compress.saved_values", takes=_PLANNER),
    "computation-deduplication": ListedPass(
        "transforms.computation_deduplication", needs([Trait.SEVERAL_CALLED])
    ),
    "conditional-code-motion": ListedPass(
        "transforms.control_flow.conditional_code_motion", _CHOICE
    ),
    "conditional-code-sinking": ListedPass(
        "transforms.control_flow.conditional_code_sinking", _CHOICE
    ),
    "conditional-operands": ListedPass("transforms.control_flow.conditional_operands", _CHOICE),
    "conditional-results": ListedPass("transforms.control_flow.conditional_results", _CHOICE),
    "conditional-simplifier": ListedPass("transforms.control_flow.conditional_simplifier", _CHOICE),
    "conditional-to-select": ListedPass("transforms.control_flow.conditional_to_select", _CHOICE),
    "constant-folding": ListedPass("transforms.constant_folding", needs([Opcode.CONSTANT])),
    "copy-sinking": ListedPass("transforms.layout.copy_sinking", needs([Opcode.COPY])),
    "counted-values": ListedPass("transforms.counted_values", needs([Opcode.IOTA])),
    "cse": ListedPass("transforms.common_subexpressions"),
    "dce": ListedPass("passes.dead_code"),
    "dot-dimension-splitter": ListedPass(
        "transforms.layout.dot_dimensions",
        needs([Opcode.DOT], [Opcode.RESHAPE], [Opcode.TRANSPOSE]),
    ),
    "dot-merger": ListedPass("transforms.dot_merger", needs([Trait.SEVERAL_DOTS])),
    "effect-order": ListedPass("transforms.effect_order", _CUSTOM_CALL),
    "expand-arg-reduce": ListedPass("transforms.expand.arg_reduce", needs([Trait.SEVERAL_RESULTS])),
    "expand-batch-norm": ListedPass("transforms.expand.batch_norm", needs(_BATCH_NORM)),
    "expand-cholesky": ListedPass("transforms.expand.cholesky", needs([Opcode.CHOLESKY])),
    "expand-cumulative-window": ListedPass(
        "transforms.expand.cumulative", needs([Opcode.REDUCE_WINDOW])
    ),
    "expand-custom-calls": ListedPass(
        "transforms.expand.custom_calls", _CUSTOM_CALL, frozenset({"target"})
    ),
    "expand-logistic": ListedPass("transforms.expand.logistic", needs([Opcode.LOGISTIC])),
    "expand-map": ListedPass("transforms.expand.map", needs([Opcode.MAP])),
    "expand-rng": ListedPass("transforms.expand.rng", needs([Opcode.RNG])),
    "expand-rng-bit-generator": ListedPass(
        "transforms.expand.random_bits", needs([Opcode.RNG_BIT_GENERATOR])
    ),
    "expand-scaled-dot": ListedPass("transforms.expand.scaled_dot", needs([Opcode.SCALED_DOT])),
    "expand-scan": ListedPass("transforms.expand.scan", needs([Opcode.SCAN])),
    "expand-select-and-scatter": ListedPass(
        "transforms.expand.select_and_scatter", needs([Opcode.SELECT_AND_SCATTER])
    ),
    "expand-simple-scatter": ListedPass(
        "transforms.expand.simple_scatter", needs([Opcode.SCATTER])
    ),
    "expand-topk": ListedPass("transforms.expand.topk", needs([Opcode.TOPK])),
    "expand-total-order": ListedPass("transforms.expand.total_order", needs([Trait.TOTAL_ORDER])),
    "expand-triangular-solve": ListedPass(
        "transforms.expand.triangular_solve", needs([Opcode.TRIANGULAR_SOLVE])
    ),
    "horizontal-fusion": ListedPass("fusion.horizontal", takes=_MERGING),
    "inline": ListedPass("transforms.inline_calls", needs([Opcode.CALL])),
    "integer-products": ListedPass("transforms.quantization.integer_products", _QUANTIZED),
    "late-kernels": ListedPass(
        "fusion.late_kernels",
        needs([Opcode.CONVOLUTION, Trait.SEVERAL_DOTS]),
        _MERGING | {"time_share"},
    ),
    "layout-assignment": ListedPass("transforms.layout.assignment"),
    "layout-normalization": ListedPass("transforms.layout.normalization", _REORDERED),
    "legalize": ListedPass("transforms.expand.legalize", _OUTSIDE_CORE),
    "lookup-tables": ListedPass("transforms.quantization.lookup_tables", _BYTES),
    "loop-residual-recompute": ListedPass("transforms.memory.loop_residuals.recompute", _LOOP),
    "loop-segments": ListedPass("transforms.memory.loop_segments.segments", _LOOP),
    "masked-products": ListedPass(
        "transforms.masked_products", needs([Opcode.MULTIPLY], [Opcode.CONVERT])
    ),
    "multi-output-fusion": ListedPass("fusion.multi_output", takes=_MERGING),
    "needless-barriers": ListedPass("transforms.needless_barriers", _BARRIER),
    "normalize-indices": ListedPass(
        "transforms.expand.index_form", needs([Opcode.GATHER, Opcode.SCATTER])
    ),
    "priority-fusion": ListedPass(
        "fusion.priority_fusion", takes=frozenset({"scheduler", "allowance", "target"})
    ),
    "reshape-decomposer": ListedPass(
        "transforms.layout.reshape_decomposer", needs([Opcode.RESHAPE], [Trait.REORDERED])
    ),
    "row-major": ListedPass("transforms.layout.row_major", _REORDERED),
    "sharding-remover": ListedPass(
        "transforms.sharding_removal", needs([Opcode.CUSTOM_CALL, Opcode.DOMAIN])
    ),
    "split-large-instructions": ListedPass(
        "transforms.memory.split.instructions", takes=_PLANNER | {"admits"}
    ),
    "unread-loops": ListedPass("transforms.control_flow.unread_loops", _LOOP),
    "while-code-motion": ListedPass("transforms.control_flow.while_code_motion", _LOOP),
    "while-dead-carries": ListedPass("transforms.control_flow.while_dead_carries", _LOOP),
    "while-duplicate-carries": ListedPass("transforms.control_flow.while_duplicate_carries", _LOOP),
    "while-independent-steps": ListedPass("transforms.control_flow.while_independent_steps", _LOOP),
    "while-induction-range": ListedPass("transforms.control_flow.while_induction_range", _LOOP),
    "while-invariant-carries": ListedPass("transforms.control_flow.while_invariant_carries", _LOOP),
    "while-relayout-sinking": ListedPass("transforms.control_flow.while_relayout_sinking", _LOOP),
    "while-simplifier": ListedPass("transforms.control_flow.while_simplifier", _LOOP),
    "while-trip-count": ListedPass("transforms.control_flow.while_trip_count", _LOOP),
    "while-tuple-flattening": ListedPass("transforms.control_flow.while_tuple_flattening", _LOOP),
    "while-unroller": ListedPass("transforms.control_flow.while_unroller", _LOOP),
    "zero-sized": ListedPass("transforms.zero_sized", needs([Trait.EMPTY])),
}
"""By name, in alphabetical order."""
