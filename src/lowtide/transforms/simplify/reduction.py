"""Reductions with one operand: over fewer elements, merged, or done without reducing.

HLO leaves open in which order a reduction combines elements, so a rule that changes only the order
counts as exact.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from lowtide.builder.values import Op, SubComputation
from lowtide.ir import Computation, ElementType, Instruction, Opcode
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.matching import (
    are_plain,
    dimensions,
    has_one_user,
    identity_of,
    is_uniform,
    scalar_value,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.pad import NO_PADDING, padding_of
from lowtide.transforms.simplify.shapes import groups_of, is_ascending
from lowtide.transforms.simplify.support import (
    FLOATS,
    INEXACT,
    INTEGERS,
    PRED,
    REALS,
    WHOLE,
    Made,
    arrays,
    exact_on_integer_arrays,
    number,
    scalar,
    splat,
    spread,
)

_NUMBERS: Final = REALS | PRED


class Reduction(NamedTuple):
    """A reduction of one operand by an associative and commutative operation."""

    operand: Instruction
    init: Instruction
    opcode: Opcode
    reduced: tuple[int, ...]
    reducer: Computation


def reduction_of(x: Instruction) -> Reduction | None:
    """Return the parts of a reduction of one operand by one of `REDUCERS`, else None."""
    if x.opcode is not Opcode.REDUCE or len(x.operands) != 2 or not is_uniform(x):
        return None
    reducer = x.called_computations[0]
    opcode = reducer_opcode(reducer)
    if opcode is None or x.shape.is_tuple:
        return None
    return Reduction(x.operands[0], x.operands[1], opcode, dimensions(x), reducer)


def _again(at: Rewriter, r: Reduction, x: Op, init: Op, reduced: list[int]) -> Op:
    """Return another reduction by the same computation."""
    return at.build.reduce(x, init, SubComputation(r.reducer), sorted(reduced))


def is_identity(opcode: Opcode, value: Instruction) -> bool:
    """Whether combining with a scalar changes nothing; a sum with 0 may lose the sign of -0."""
    known, element_type = scalar_value(value), value.shape.element_type
    if known is None or element_type not in _NUMBERS:
        return False
    return bool(known == identity_of(opcode, element_type))


def _neutral(opcode: Opcode, element_type: ElementType) -> Any:
    """Return the number that changes nothing at all, which for sums of floats is -0."""
    is_sum = opcode is Opcode.ADD and element_type in FLOATS
    return -0.0 if is_sum else identity_of(opcode, element_type)


def _same_bits(a: Instruction, b: Instruction) -> bool:
    if a is b:
        return True
    x, y = scalar_value(a), scalar_value(b)
    return x is not None and y is not None and bool(x.tobytes() == y.tobytes())


def _combined(at: Rewriter, opcode: Opcode, x: Op, init: Instruction) -> Op:
    """Return x combined with the initial value; as it is where that changes nothing at all."""
    element_type = x.element_type
    rounds = opcode is Opcode.ADD and element_type in INEXACT
    if is_identity(opcode, init) and not rounds:
        return x
    return at.build.emit(opcode, [x, spread(at, at(init), x.shape)])


# -- fewer elements ----------------------------------------------------------------------------


@arrays(Opcode.REDUCE)
def reduce_empty(x: Instruction, at: Rewriter) -> Made:
    """reduce(x, v) => broadcast(v), where x has no elements"""
    r = reduction_of(x)
    if r is None or r.operand.shape.element_count:
        return None
    return spread(at, at(r.init), x.shape)


@arrays(Opcode.REDUCE)
def reduce_only_units(x: Instruction, at: Rewriter) -> Made:
    """reduce(x, v) => op(reshape(x), v), where all reduced dimensions have size 1"""
    r = reduction_of(x)
    if r is None or any(r.operand.shape.dimensions[d] != 1 for d in r.reduced):
        return None
    same = r.operand.shape is x.shape
    flat = at(r.operand) if same else at.build.reshape(at(r.operand), x.shape.dimensions)
    return _combined(at, r.opcode, flat, r.init)


@arrays(Opcode.REDUCE)
def reduce_units(x: Instruction, at: Rewriter) -> Made:
    """reduce(x, v) => reduce(reshape(x), v), without the reduced dimensions of size 1"""
    r = reduction_of(x)
    if r is None:
        return None
    sizes = r.operand.shape.dimensions
    dropped = [d for d in r.reduced if sizes[d] == 1]
    if not dropped:
        return None
    kept = [d for d in range(len(sizes)) if d not in dropped]
    flat = at.build.reshape(at(r.operand), [sizes[d] for d in kept])
    return _again(at, r, flat, at(r.init), [kept.index(d) for d in r.reduced if d in kept])


@arrays(Opcode.REDUCE, on=_NUMBERS, of=(Opcode.REDUCE,))
def reduce_of_reduce(x: Instruction, at: Rewriter) -> Made:
    """reduce(reduce(x, v), v) => reduce(x, v), where v changes nothing and nothing is rounded"""
    r = reduction_of(x)
    rounds = r is not None and r.opcode in _ROUNDING and x.shape.element_type in FLOATS
    return None if rounds else _reduced_at_once(x, at)


@arrays(Opcode.REDUCE, on=FLOATS, of=(Opcode.REDUCE,), exact=False)
def reduce_of_reduce_inexactly(x: Instruction, at: Rewriter) -> Made:
    """reduce(reduce(x, v), v) => reduce(x, v), where v changes nothing

    What is combined first may be any elements afterwards, not only those of one row.
    """
    return _reduced_at_once(x, at)


_ROUNDING: Final = (Opcode.ADD, Opcode.MULTIPLY)


def _reduced_at_once(x: Instruction, at: Rewriter) -> Made:
    outer = reduction_of(x)
    inner = None if outer is None else reduction_of(outer.operand)
    if outer is None or inner is None or inner.opcode is not outer.opcode:
        return None
    if not has_one_user(outer.operand) or not is_identity(inner.opcode, inner.init):
        return None
    if not _same_bits(inner.init, outer.init) or not are_plain(inner.operand):
        return None
    kept = [d for d in range(inner.operand.shape.rank) if d not in inner.reduced]
    reduced = [*inner.reduced, *[kept[d] for d in outer.reduced]]
    return _again(at, outer, at(inner.operand), at(outer.init), reduced)


@arrays(Opcode.REDUCE, of=(Opcode.TRANSPOSE,))
def reduce_of_transpose(x: Instruction, at: Rewriter) -> Made:
    """reduce(transpose(x)) => transpose(reduce(x))"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.TRANSPOSE:
        return None
    order = dimensions(r.operand)
    reduced = [order[d] for d in r.reduced]
    kept = [order[d] for d in range(len(order)) if d not in r.reduced]
    early = _again(at, r, at(r.operand.operands[0]), at(r.init), reduced)
    if is_ascending(kept):
        return early
    return at.build.transpose(early, [sorted(kept).index(d) for d in kept])


@arrays(Opcode.REDUCE, of=(Opcode.RESHAPE,))
def reduce_of_reshape(x: Instruction, at: Rewriter) -> Made:
    """reduce(reshape(x)) => reshape(reduce(x)), where whole dimensions of x are reduced"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.RESHAPE:
        return None
    source, sizes = r.operand.operands[0], r.operand.shape.dimensions
    groups = groups_of(source.shape.dimensions, sizes)
    if groups is None or not are_plain(source):
        return None
    reduced: list[int] = []
    for before, after in groups:
        wide = {d in r.reduced for d in after if sizes[d] != 1}
        if len(wide) > 1:
            return None
        if True in wide:
            reduced += [d for d in before if source.shape.dimensions[d] != 1]
    if not reduced:
        return None
    early = _again(at, r, at(source), at(r.init), reduced)
    return early if early.shape is x.shape else at.build.reshape(early, x.shape.dimensions)


@arrays(Opcode.REDUCE, of=(Opcode.REVERSE,))
def reduce_of_reverse(x: Instruction, at: Rewriter) -> Made:
    """reduce(reverse(x)) => reduce(x), where only reduced dimensions are turned"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.REVERSE:
        return None
    inner = r.operand
    turned = [d for d in dimensions(inner) if d not in r.reduced]
    if len(turned) == len(dimensions(inner)):
        return None
    early = at(inner.operands[0])
    if turned:
        early = at.build.reverse(early, turned)
    return _again(at, r, early, at(r.init), list(r.reduced))


@arrays(Opcode.REDUCE, on=_NUMBERS, of=(Opcode.PAD,))
def reduce_of_pad(x: Instruction, at: Rewriter) -> Made:
    """reduce(pad(x, v), v) => reduce(x, v), where v changes nothing"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.PAD or not is_uniform(r.operand):
        return None
    inner, value = r.operand.operands
    if not is_identity(r.opcode, value) or not _same_bits(value, r.init):
        return None
    for d, p in enumerate(padding_of(r.operand)):
        if p != NO_PADDING and (d not in r.reduced or p.low < 0 or p.high < 0):
            return None
    return _again(at, r, at(inner), at(r.init), list(r.reduced))


@arrays(Opcode.REDUCE, on=_NUMBERS, of=(Opcode.CONCATENATE,))
def reduce_of_concatenate(x: Instruction, at: Rewriter) -> Made:
    """reduce(concatenate(x, y)) => op(reduce(x), reduce(y)), along the reduced dimension"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.CONCATENATE or not has_one_user(r.operand):
        return None
    inner = r.operand
    if dimensions(inner)[0] not in r.reduced or len(inner.operands) > 4 or not is_uniform(inner):
        return None
    element_type = x.shape.element_type
    neutral = scalar(at, _neutral(r.opcode, element_type), element_type)
    inits = [at(r.init), *[neutral for _ in inner.operands[1:]]]
    parts = [
        _again(at, r, at(y), init, list(r.reduced))
        for y, init in zip(inner.operands, inits, strict=True)
    ]
    result = parts[0]
    for part in parts[1:]:
        result = at.build.emit(r.opcode, [result, part])
    return result


# -- repeated elements -------------------------------------------------------------------------

_IDEMPOTENT: Final = frozenset({Opcode.AND, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.OR})


@arrays(Opcode.REDUCE, of=(Opcode.BROADCAST,))
def reduce_of_broadcast(x: Instruction, at: Rewriter) -> Made:
    """reduce(broadcast(x)) => broadcast(reduce(x)), where op(x, x) = x, over repeated dimensions"""
    r = reduction_of(x)
    if r is None or r.opcode not in _IDEMPOTENT:
        return None
    found = _unrepeated(at, r)
    return None if found is None else _spread_again(at, r, x, found[0])


@exact_on_integer_arrays(Opcode.REDUCE)
def sum_of_broadcast(x: Instruction, at: Rewriter) -> Made:
    """sum(broadcast(x)) => broadcast(sum(x)) * n, over n repeated elements"""
    r = reduction_of(x)
    if r is None or r.opcode is not Opcode.ADD or not _is_zero(r.init):
        return None
    found = _unrepeated(at, r)
    if found is None:
        return None
    small, count = found
    return _spread_again(at, r, x, small * splat(at, count, small.shape))


def _is_zero(init: Instruction) -> bool:
    value = scalar_value(init)
    return value is not None and bool(value == 0)


def _unrepeated(at: Rewriter, r: Reduction) -> tuple[Op, int] | None:
    """Return the reduction of the operand of a broadcast, and how often its elements counted."""
    inner = r.operand
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    if not inner.shape.element_count:
        return None
    places = dimensions(inner)
    count = 1
    repeated = [d for d in r.reduced if d not in places]
    for d in repeated:
        count *= inner.shape.dimensions[d]
    if not repeated:
        return None
    source = at(inner.operands[0])
    reduced = [i for i, d in enumerate(places) if d in r.reduced]
    if reduced:
        return _again(at, r, source, at(r.init), reduced), count
    return _combined(at, r.opcode, source, r.init), count


def _spread_again(at: Rewriter, r: Reduction, x: Instruction, small: Op) -> Op:
    """Return what is left of a broadcast once some of its dimensions are reduced."""
    kept = [d for d in range(r.operand.shape.rank) if d not in r.reduced]
    places = [kept.index(d) for d in dimensions(r.operand) if d in kept]
    if small.shape is x.shape and is_ascending(places):
        return small
    return at.build.broadcast(small, x.shape.dimensions, places)


# -- what comes out of a sum -------------------------------------------------------------------


@exact_on_integer_arrays(Opcode.REDUCE)
def sum_of_negated(x: Instruction, at: Rewriter) -> Made:
    """sum(-x) => -sum(x)"""
    r = reduction_of(x)
    if r is None or r.opcode is not Opcode.ADD or not _is_zero(r.init):
        return None
    inner = r.operand
    if inner.opcode is not Opcode.NEGATE or not has_one_user(inner):
        return None
    return -_again(at, r, at(inner.operands[0]), at(r.init), list(r.reduced))


@exact_on_integer_arrays(Opcode.REDUCE)
def sum_of_scaled(x: Instruction, at: Rewriter) -> Made:
    """sum(x * broadcast(v)) => sum(x) * v, where v is a scalar"""
    r = reduction_of(x)
    if r is None or r.opcode is not Opcode.ADD or not _is_zero(r.init):
        return None
    inner = r.operand
    if inner.opcode is not Opcode.MULTIPLY or not has_one_user(inner) or not is_uniform(inner):
        return None
    left, right = inner.operands
    for y, factor in ((left, right), (right, left)):
        if factor.opcode is Opcode.BROADCAST and not factor.operands[0].shape.rank:
            small = _again(at, r, at(y), at(r.init), list(r.reduced))
            return small * spread(at, at(factor.operands[0]), small.shape)
    return None


@arrays(Opcode.REDUCE, on=WHOLE | FLOATS, of=(Opcode.NEGATE, Opcode.NOT))
def reduce_of_negated(x: Instruction, at: Rewriter) -> Made:
    """max(-x) => -min(x) over floating point numbers, all(not p) => not any(p), and mirrored"""
    r = reduction_of(x)
    if r is None or not has_one_user(r.operand) or not is_identity(r.opcode, r.init):
        return None
    inner = r.operand
    dual = _DUALS.get((inner.opcode, r.opcode))
    element_type = x.shape.element_type
    if dual is None or (inner.opcode is Opcode.NEGATE) != (element_type in FLOATS):
        return None
    init = scalar(at, identity_of(dual, element_type), element_type)
    reducer = at.build.scalar_computation(dual, element_type)
    early = at.build.reduce(at(inner.operands[0]), init, reducer, r.reduced)
    return at.build.emit(inner.opcode, [early])


_DUALS: Final = {
    (Opcode.NEGATE, Opcode.MAXIMUM): Opcode.MINIMUM,
    (Opcode.NEGATE, Opcode.MINIMUM): Opcode.MAXIMUM,
    (Opcode.NOT, Opcode.AND): Opcode.OR,
    (Opcode.NOT, Opcode.OR): Opcode.AND,
}


@arrays(Opcode.REDUCE, on=INTEGERS)
def reduce_of_iota(x: Instruction, at: Rewriter) -> Made:
    """sum(iota) => n (n - 1) / 2, max(iota) => n - 1, min(iota) => 0"""
    r = reduction_of(x)
    if r is None or r.operand.opcode is not Opcode.IOTA or r.reduced != (0,):
        return None
    if not is_identity(r.opcode, r.init):
        return None
    n = r.operand.shape.dimensions[0]
    element_type = x.shape.element_type
    known: dict[Opcode, Any] = {
        Opcode.ADD: n * (n - 1) // 2,
        Opcode.MAXIMUM: n - 1,
        Opcode.MINIMUM: 0,
    }
    if r.opcode not in known or not n or int(number(n - 1, element_type)) != n - 1:
        return None
    return scalar(at, known[r.opcode], element_type)
