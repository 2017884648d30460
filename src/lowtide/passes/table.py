"""The passes of lowtide by name: the module that holds each, and what it needs to find.

So a pass is loaded when it runs, and it runs where there may be something to do. One that needs
nothing may always do something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lowtide.ir import ElementType, Opcode
from lowtide.passes.needs import Needs, Trait, needs
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class Row:
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
_ASYNC: Final = needs(
    [
        *(Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE_START, Opcode.ASYNC_START),
        *(Opcode.COLLECTIVE_PERMUTE_START, Opcode.COPY_START),
    ]
)
_BATCH_NORM: Final = (
    *(Opcode.BATCH_NORM_GRAD, Opcode.BATCH_NORM_INFERENCE, Opcode.BATCH_NORM_TRAINING),
)
_OUTSIDE_CORE: Final = needs(
    [
        *_BATCH_NORM,
        *(Opcode.GATHER, Opcode.LOGISTIC, Opcode.MAP, Opcode.REDUCE_WINDOW, Opcode.RNG),
        *(Opcode.SCALED_DOT, Opcode.SCAN, Opcode.SCATTER),
        *(Trait.MIXED, Trait.SEVERAL_RESULTS, Trait.TOTAL_ORDER),
    ]
)
_QUANTIZED: Final = needs(
    [Opcode.DOT, Opcode.CONVOLUTION],
    [x for x in ElementType if x.is_integer and x.bits <= 8],
)
_BYTES: Final = needs([ElementType.S8, ElementType.U8])

TABLE: Final[Mapping[str, Row]] = {
    "algsimp": Row("transforms.simplify.algebraic_simplifier"),
    "async-to-sync": Row("transforms.async_to_sync", _ASYNC),
    "attention-fusion": Row(
        "fusion.attention",
        needs([Trait.SEVERAL_DOTS], [Opcode.REDUCE]),
        frozenset({"target"}),
    ),
    "barrier-operands": Row("transforms.barrier_operands", _BARRIER),
    "compress-saved-values": Row("transforms.memory.compress.saved_values", takes=_PLANNER),
    "computation-deduplication": Row(
        "transforms.computation_deduplication", needs([Trait.SEVERAL_CALLED])
    ),
    "conditional-code-motion": Row("transforms.control_flow.conditional_code_motion", _CHOICE),
    "conditional-code-sinking": Row("transforms.control_flow.conditional_code_sinking", _CHOICE),
    "conditional-operands": Row("transforms.control_flow.conditional_operands", _CHOICE),
    "conditional-results": Row("transforms.control_flow.conditional_results", _CHOICE),
    "conditional-simplifier": Row("transforms.control_flow.conditional_simplifier", _CHOICE),
    "conditional-to-select": Row("transforms.control_flow.conditional_to_select", _CHOICE),
    "constant-folding": Row("transforms.constant_folding", needs([Opcode.CONSTANT])),
    "copy-sinking": Row("transforms.layout.copy_sinking", needs([Opcode.COPY])),
    "cse": Row("transforms.common_subexpressions"),
    "dce": Row("transforms.dead_code"),
    "dot-dimension-splitter": Row(
        "transforms.layout.dot_dimensions",
        needs([Opcode.DOT], [Opcode.RESHAPE], [Opcode.TRANSPOSE]),
    ),
    "dot-merger": Row("transforms.dot_merger", needs([Trait.SEVERAL_DOTS])),
    "effect-order": Row("transforms.effect_order", _CUSTOM_CALL),
    "expand-arg-reduce": Row("transforms.expand.arg_reduce", needs([Trait.SEVERAL_RESULTS])),
    "expand-batch-norm": Row("transforms.expand.batch_norm", needs(_BATCH_NORM)),
    "expand-cholesky": Row("transforms.expand.cholesky", needs([Opcode.CHOLESKY])),
    "expand-cumulative-window": Row("transforms.expand.cumulative", needs([Opcode.REDUCE_WINDOW])),
    "expand-custom-calls": Row("transforms.expand.custom_calls", _CUSTOM_CALL),
    "expand-logistic": Row("transforms.expand.logistic", needs([Opcode.LOGISTIC])),
    "expand-map": Row("transforms.expand.map", needs([Opcode.MAP])),
    "expand-rng": Row("transforms.expand.rng", needs([Opcode.RNG])),
    "expand-rng-bit-generator": Row(
        "transforms.expand.rng_bit_generator", needs([Opcode.RNG_BIT_GENERATOR])
    ),
    "expand-scaled-dot": Row("transforms.expand.scaled_dot", needs([Opcode.SCALED_DOT])),
    "expand-scan": Row("transforms.expand.scan", needs([Opcode.SCAN])),
    "expand-select-and-scatter": Row(
        "transforms.expand.select_and_scatter", needs([Opcode.SELECT_AND_SCATTER])
    ),
    "expand-simple-scatter": Row("transforms.expand.simple_scatter", needs([Opcode.SCATTER])),
    "expand-topk": Row("transforms.expand.topk", needs([Opcode.TOPK])),
    "expand-total-order": Row("transforms.expand.total_order", needs([Trait.TOTAL_ORDER])),
    "expand-triangular-solve": Row(
        "transforms.expand.triangular_solve", needs([Opcode.TRIANGULAR_SOLVE])
    ),
    "horizontal-fusion": Row("fusion.horizontal", takes=_MERGING),
    "inline": Row("transforms.inline_calls", needs([Opcode.CALL])),
    "integer-products": Row("transforms.quantization.integer_products", _QUANTIZED),
    "layout-assignment": Row("transforms.layout.assignment"),
    "layout-normalization": Row("transforms.layout.normalization", _REORDERED),
    "legalize": Row("transforms.expand.legalize", _OUTSIDE_CORE),
    "lookup-tables": Row("transforms.quantization.lookup_tables", _BYTES),
    "loop-residual-recompute": Row("transforms.memory.loop_residuals.recompute", _LOOP),
    "loop-segments": Row("transforms.memory.loop_segments.segments", _LOOP),
    "multi-output-fusion": Row("fusion.multi_output", takes=_MERGING),
    "needless-barriers": Row("transforms.needless_barriers", _BARRIER),
    "normalize-indices": Row(
        "transforms.expand.index_form", needs([Opcode.GATHER, Opcode.SCATTER])
    ),
    "priority-fusion": Row(
        "fusion.priority_fusion", takes=frozenset({"scheduler", "allowance", "target"})
    ),
    "reshape-decomposer": Row(
        "transforms.layout.reshape_decomposer", needs([Opcode.RESHAPE], [Trait.REORDERED])
    ),
    "row-major": Row("transforms.layout.row_major", _REORDERED),
    "sharding-remover": Row(
        "transforms.sharding_removal", needs([Opcode.CUSTOM_CALL, Opcode.DOMAIN])
    ),
    "split-large-instructions": Row("transforms.memory.split.instructions", takes=_PLANNER),
    "unread-loops": Row("transforms.control_flow.unread_loops", _LOOP),
    "while-code-motion": Row("transforms.control_flow.while_code_motion", _LOOP),
    "while-dead-carries": Row("transforms.control_flow.while_dead_carries", _LOOP),
    "while-duplicate-carries": Row("transforms.control_flow.while_duplicate_carries", _LOOP),
    "while-induction-range": Row("transforms.control_flow.while_induction_range", _LOOP),
    "while-invariant-carries": Row("transforms.control_flow.while_invariant_carries", _LOOP),
    "while-relayout-sinking": Row("transforms.control_flow.while_relayout_sinking", _LOOP),
    "while-simplifier": Row("transforms.control_flow.while_simplifier", _LOOP),
    "while-trip-count": Row("transforms.control_flow.while_trip_count", _LOOP),
    "while-tuple-flattening": Row("transforms.control_flow.while_tuple_flattening", _LOOP),
    "while-unroller": Row("transforms.control_flow.while_unroller", _LOOP),
    "zero-sized": Row("transforms.zero_sized", needs([Trait.EMPTY])),
}
"""By name, in alphabetical order."""
