"""Functions of one number of 8 bits, looked up in a table of all numbers that there are."""

from __future__ import annotations

from typing import Final

import numpy as np

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.evaluator import evaluate
from lowtide.ir import Computation, ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.attributes import Gather
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.traversal import post_order
from lowtide.ops.table import TABLE
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.editing import substitute
from lowtide.passes.interface import Pass
from lowtide.passes.matching import is_plain, scalar_value
from lowtide.records import dataclass

_NUMBERS: Final = {ElementType.U8: range(256), ElementType.S8: range(-128, 128)}
"""The types of numbers, and all numbers of each."""

_RESULTS: Final = frozenset(
    {ElementType.U8, ElementType.S8, ElementType.F32, ElementType.S32, ElementType.BF16}
)

_LEAST_SIZE: Final = 2048
"""Elements for which a table is made."""

_LEAST_COST: Final = 30
"""Operations, in additions, that take longer than a place in a table that is near."""

_MOST_COST: Final = 4096
"""Operations of which a table is made at all: they are told apart by going through them."""

_COSTS: Final = {
    Opcode.DIVIDE: 6,
    Opcode.REMAINDER: 10,
    Opcode.SQRT: 6,
    Opcode.RSQRT: 4,
    Opcode.CBRT: 20,
    Opcode.EXPONENTIAL: 10,
    Opcode.EXPONENTIAL_MINUS_ONE: 14,
    Opcode.LOG: 12,
    Opcode.LOG_PLUS_ONE: 14,
    Opcode.LOGISTIC: 16,
    Opcode.TANH: 16,
    Opcode.ERF: 16,
    Opcode.SINE: 20,
    Opcode.COSINE: 20,
    Opcode.TAN: 25,
    Opcode.POWER: 30,
    Opcode.ATAN2: 25,
    Opcode.CLAMP: 4,
    Opcode.CONVERT: 3,
}
"""Costs of operations in additions; 1 where none is listed."""

_OTHERS: Final = frozenset({Opcode.MAP, Opcode.STOCHASTIC_CONVERT, Opcode.COPY})
"""Elementwise operations that are no functions of numbers alone."""


def make_lookup_tables(module: Module) -> int:
    """Look functions of one number of 8 bits up in tables; return how many were replaced.

    That is where elementwise operations on numbers of 8 bits, beside constants, cost more than a
    place in a table does. The entries are what the evaluator makes of each number. A function that
    leaves each number as it is, such as one that quantizes what was dequantized by the same scale,
    needs no table.
    """
    changes = 0
    for computation in list(module.computations.values()):
        changes += _leave_out_what_leaves_all(computation)
        # The last ones first: a function may be one of numbers that come out of another table.
        for root, source in reversed(_functions(computation)):
            builder = Builder.inside(computation)
            substitute(root, _looked_up(builder, root, source).instruction)
            changes += 1
    if changes:
        remove_dead_code(module)
    return changes


@dataclass(frozen=True, slots=True)
class _Function:
    """The numbers that a value is a function of, and about what computing it costs."""

    source: Instruction
    cost: int


def _leave_out_what_leaves_all(computation: Computation) -> int:
    """Have the numbers themselves read where a function leaves each as it is; return how often."""
    changes = 0
    known: dict[Instruction, _Function] = {}
    for x in post_order(computation):
        found = _function_of(x, known)
        if found is None:
            if x.shape.is_array and x.shape.element_type in _NUMBERS and is_plain(x.shape):
                known[x] = _Function(x, 0)
            continue
        known[x] = found
        source, type_ = found.source, x.shape.element_type
        is_candidate = x.opcode is Opcode.CONVERT and type_ is source.shape.element_type
        is_candidate = is_candidate and found.cost < _LEAST_COST
        if not is_candidate or x.has_control_edges or not _leaves_all(x, source):
            continue
        builder = Builder.inside(computation)
        same = builder.reshape(builder.value(source), x.shape.dimensions).instruction
        substitute(x, same)
        known[x] = known[same] = _Function(source, 0)
        changes += 1
    return changes


def _functions(computation: Computation) -> list[tuple[Instruction, Instruction]]:
    """The values that are worth a table, and the numbers that they are functions of.

    Those of 8 bits are found first: what is made of them begins with them.
    """
    first = _ends(computation, frozenset())
    narrow = frozenset([x for x, _ in first if x.shape.element_type in _NUMBERS])
    return _ends(computation, narrow)


def _ends(
    computation: Computation, beginnings: frozenset[Instruction]
) -> list[tuple[Instruction, Instruction]]:
    """Functions that something else than a function of the same numbers reads, worth a table."""
    known: dict[Instruction, _Function] = {}
    functions: dict[Instruction, _Function] = {}
    for x in post_order(computation):
        found = _function_of(x, known)
        if found is not None:
            functions[x] = known[x] = found
        is_narrow = x.shape.is_array and x.shape.element_type in _NUMBERS and is_plain(x.shape)
        if x in beginnings or (found is None and is_narrow):
            known[x] = _Function(x, 0)
    ends = []
    for x, function in functions.items():
        is_worth_it = _LEAST_COST <= function.cost <= _MOST_COST and not x.has_control_edges
        if not is_worth_it or x.shape.element_type not in _RESULTS:
            continue
        same = [u in functions and functions[u].source is function.source for u in x.users]
        if x is computation.root or not all(same):
            ends.append((x, function.source))
    return ends


def _function_of(x: Instruction, known: dict[Instruction, _Function]) -> _Function | None:
    """What an elementwise operation or a reshape is a function of, if it is one of 8-bit numbers.

    Both keep the order of the elements.
    """
    if not is_plain(x.shape) or x.shape.element_count < _LEAST_SIZE:
        return None
    if x.opcode is Opcode.RESHAPE:
        return known.get(x.operands[0])
    if not TABLE[x.opcode].elementwise or x.opcode in _OTHERS:
        return None
    sources: list[Instruction] = []
    cost = _COSTS.get(x.opcode, 1)
    for y in dict.fromkeys(x.operands):
        if scalar_value(y) is not None:
            continue
        function = known.get(y)
        if function is None or y.shape.dimensions != x.shape.dimensions:
            return None
        sources.append(function.source)
        cost += function.cost
    if not sources or any(y is not sources[0] for y in sources):
        return None
    return _Function(sources[0], cost)


# -- tables ----------------------------------------------------------------------------------------


def _leaves_all(root: Instruction, source: Instruction) -> bool:
    """Whether a function of numbers gives each of them itself."""
    return np.array_equal(_table(root, source), _numbers(source.shape.element_type))


def _numbers(type_: ElementType) -> Array:
    return np.array(_NUMBERS[type_], DTYPES[type_])


def _looked_up(b: Builder, root: Instruction, source: Instruction) -> Op:
    """The entries of a table of what `root` is for each number of `source`."""
    table = b.constant(_table(root, source))
    place = b.convert(b.value(source), ElementType.S32)
    first = _NUMBERS[source.shape.element_type][0]
    place = place - first if first else place
    sizes = root.shape.dimensions
    rank = len(sizes)
    how = Gather(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=rank,
        slice_sizes=(1,),
    )
    return b.emit(Opcode.GATHER, [table, b.reshape(place, [*sizes, 1])], how, shape=root.shape)


def _table(root: Instruction, source: Instruction) -> Array:
    """What `root` is for all numbers in turn, by the evaluator."""
    count = len(_NUMBERS[source.shape.element_type])
    b = Builder("table")
    made = {source: b.parameter(0, array_shape(source.shape.element_type, (count,)), "numbers")}
    for x in _between(root, source):
        if x.opcode is Opcode.RESHAPE:
            made[x] = made[x.operands[0]]
            continue
        operands = []
        for y in x.operands:
            if y not in made:
                number = np.asarray(scalar_value(y), DTYPES[y.shape.element_type])
                made[y] = b.broadcast(b.constant(number), (count,), ())
            operands.append(made[y])
        shape = array_shape(x.shape.element_type, (count,))
        made[x] = b.emit(x.opcode, operands, x.attributes, shape=shape)
    module = b.build(made[root])
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(module, [_numbers(source.shape.element_type)]))


def _between(root: Instruction, source: Instruction) -> list[Instruction]:
    """The operations from the numbers to a function of them, operands first."""
    found: dict[Instruction, None] = {}
    stack = [(root, False)]
    while stack:
        x, is_done = stack.pop()
        if is_done:
            found[x] = None
        elif x is not source and x not in found and scalar_value(x) is None:
            stack.append((x, True))
            stack += [(y, False) for y in x.operands]
    return list(found)


PASSES: Final = (
    Pass(
        "lookup-tables",
        make_lookup_tables,
        "Functions of one number of 8 bits are looked up in tables.",
        """
        HloModule m
        ENTRY e {
          q = s8[64,32] parameter(0)
          s = f32[] constant(0.1)
          scales = f32[64,32] broadcast(s), dimensions={}
          floats = f32[64,32] convert(q)
          x = f32[64,32] multiply(floats, scales)
          y = f32[64,32] tanh(x)
          z = f32[64,32] exponential(y)
          w = f32[64,32] divide(z, scales)
          ROOT r = s8[64,32] convert(w)
        }
        """,
        """
        HloModule m
        ENTRY e (q: s8[64,32]) -> s8[64,32] {
          constant = s8[256]{0} constant({3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 6, 6, 7,
            8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 23, 24, 24,
            25, 25, 25, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 27, 27, 27, 27, 27,
            27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27,
            27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27,
            27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27,
            27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27,
            27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27,
            27, 27, 27, 27})
          q = s8[64,32]{1,0} parameter(0)
          convert = s32[64,32]{1,0} convert(q)
          constant.1 = s32[] constant(-128)
          broadcast = s32[64,32]{1,0} broadcast(constant.1), dimensions={}
          subtract = s32[64,32]{1,0} subtract(convert, broadcast)
          reshape = s32[64,32,1]{2,1,0} reshape(subtract)
          ROOT gather = s8[64,32]{1,0} gather(constant, reshape), offset_dims={},
            collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}
        }
        """,
    ),
)
