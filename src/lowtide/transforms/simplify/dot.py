"""Products of matrices: transposes and sizes of 1 that they take in, and what is no product."""

from __future__ import annotations

from dataclasses import replace

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dot, DotAlgorithm, DotDimensions
from lowtide.ops.contraction import contracted_size
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.matching import (
    are_plain,
    dimensions,
    has_one_user,
    is_all,
    is_plain,
    is_uniform,
)
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.shapes import is_ascending, is_scalar_broadcast, without_units
from lowtide.transforms.simplify.support import (
    COMPLEX,
    FLOATS,
    REALS,
    Made,
    arrays,
    exact_on_integer_arrays,
    splat,
    spread,
)


def _how(dot: Instruction) -> Dot:
    return dot.attributes_as(Dot)


def _of_one_type(dot: Instruction) -> bool:
    """Whether operands and result have one element type, and no algorithm is asked for."""
    types = {dot.shape.element_type, *[x.shape.element_type for x in dot.operands]}
    return len(types) == 1 and _how(dot).precision.algorithm is DotAlgorithm.UNSET


def _without(sizes: tuple[int, ...], dimensions: tuple[int, ...]) -> list[int]:
    return [size for d, size in enumerate(sizes) if d not in dimensions]


def _redone(at: Rewriter, dot: Instruction, a: Op, b: Op, numbers: DotDimensions) -> Op:
    """Return another dot of the same precision and element type."""
    return at.build.dot(a, b, numbers, _how(dot).precision, dot.shape.element_type)


# -- what is no product ------------------------------------------------------------------------


@arrays(Opcode.DOT)
def dot_of_nothing(dot: Instruction, at: Rewriter) -> Made:
    """dot(x, y) => 0, where no element is contracted"""
    size = contracted_size(dot.operands[0].shape, _how(dot).dimensions)
    return None if size else splat(at, 0, dot.shape)


@exact_on_integer_arrays(Opcode.DOT)
def dot_of_zeros(dot: Instruction, at: Rewriter) -> Made:
    """dot(x, 0) => 0, dot(0, x) => 0"""
    return splat(at, 0, dot.shape) if any(is_all(x, 0) for x in dot.operands) else None


@arrays(Opcode.DOT, on=REALS)
def dot_of_single_products(dot: Instruction, at: Rewriter) -> Made:
    """dot(x, y) => broadcast(x) * broadcast(y) + 0, where only sizes of 1 are contracted

    The sum with 0, of floating point numbers only, makes -0 the 0 with which sums begin.
    """
    if not _of_one_type(dot) or contracted_size(dot.operands[0].shape, _how(dot).dimensions) != 1:
        return None
    parts = []
    for x, roles in zip(dot.operands, dot_roles(dot), strict=True):
        places = [place for place in roles.places if place >= 0]
        part = at(x)
        if roles.contracted:
            part = at.build.reshape(part, _without(x.shape.dimensions, roles.contracted))
        parts.append(at.build.broadcast(part, dot.shape.dimensions, places))
    product = parts[0] * parts[1]
    return product + splat(at, 0, dot.shape) if dot.shape.element_type in FLOATS else product


@exact_on_integer_arrays(Opcode.DOT)
def dot_of_repeated_scalar(dot: Instruction, at: Rewriter) -> Made:
    """dot(broadcast(v), y) => broadcast(v * sum(y)), where v is a scalar"""
    if not _of_one_type(dot) or dot.shape.element_type in COMPLEX:
        return None
    for i, x in enumerate(dot.operands):
        if not is_scalar_broadcast(x):
            continue
        y = dot.operands[1 - i]
        roles = dot_roles(dot)[1 - i]
        element_type = y.shape.element_type
        add = at.build.scalar_computation(Opcode.ADD, element_type)
        small = at.build.reduce(at(y), splat(at, 0, x.operands[0].shape), add, roles.contracted)
        small = small * spread(at, at(x.operands[0]), small.shape)
        places = [place for place in roles.places if place >= 0]
        return at.build.broadcast(small, dot.shape.dimensions, places)
    return None


# -- sizes of 1 --------------------------------------------------------------------------------


@arrays(Opcode.DOT)
def dot_without_units(dot: Instruction, at: Rewriter) -> Made:
    """dot(x, y) => reshape(dot(reshape(x), reshape(y))), without paired dimensions of size 1"""
    n = _how(dot).dimensions
    sizes = [x.shape.dimensions for x in dot.operands]
    batch = [(a, b) for a, b in zip(n.lhs_batch, n.rhs_batch, strict=True) if sizes[0][a] != 1]
    contracting = [
        (a, b)
        for a, b in zip(n.lhs_contracting, n.rhs_contracting, strict=True)
        if sizes[0][a] != 1
    ]
    if not contracting or 0 in dot.shape.dimensions:
        return None
    if len(batch) == len(n.lhs_batch) and len(contracting) == len(n.lhs_contracting):
        return None
    parts, new = [], []
    for i, x in enumerate(dot.operands):
        free = dot_roles(dot)[i].free
        paired = [pair[i] for pair in (*batch, *contracting)]
        kept = [d for d in range(x.shape.rank) if d in paired or d in free]
        flat = [sizes[i][d] for d in kept]
        parts.append(at.build.reshape(at(x), flat) if len(kept) < x.shape.rank else at(x))
        new.append({d: j for j, d in enumerate(kept)})
    numbers = DotDimensions(
        tuple([new[0][a] for a, _ in contracting]),
        tuple([new[1][b] for _, b in contracting]),
        tuple([new[0][a] for a, _ in batch]),
        tuple([new[1][b] for _, b in batch]),
    )
    result = _redone(at, dot, parts[0], parts[1], numbers)
    same = result.dimensions == dot.shape.dimensions
    return result if same else at.build.reshape(result, dot.shape.dimensions)


# -- transposes --------------------------------------------------------------------------------


@arrays(Opcode.DOT)
def dot_of_transpose(dot: Instruction, at: Rewriter) -> Made:
    """dot(transpose(x), y) => dot(x, y), with other dimension numbers, on either side

    Batch dimensions stay in front, where kernels want them, and free ones in their order. The
    transpose may stand before a conversion.
    """
    for i, x in enumerate(dot.operands):
        inner = x
        if x.opcode is Opcode.CONVERT and has_one_user(x):
            inner = x.operands[0]
        if inner.opcode is not Opcode.TRANSPOSE or not are_plain(inner, inner.operands[0]):
            continue
        order = dimensions(inner)
        roles = dot_roles(dot)[i]
        batch = tuple([order[d] for d in roles.batch])
        if batch != tuple(range(len(batch))) or not is_ascending([order[d] for d in roles.free]):
            continue
        source = at(inner.operands[0])
        if inner is not x:
            source = at.build.convert(source, x.shape.element_type)
        return _with_side(at, dot, i, source, batch, tuple([order[d] for d in roles.contracted]))
    return None


def _with_side(
    at: Rewriter,
    dot: Instruction,
    i: int,
    x: Op,
    batch: tuple[int, ...],
    contracting: tuple[int, ...],
) -> Op:
    """Return the dot with another operand `i`."""
    n = _how(dot).dimensions
    if i == 0:
        numbers = DotDimensions(contracting, n.rhs_contracting, batch, n.rhs_batch)
        return _redone(at, dot, x, at(dot.operands[1]), numbers)
    numbers = DotDimensions(n.lhs_contracting, contracting, n.lhs_batch, batch)
    return _redone(at, dot, at(dot.operands[0]), x, numbers)


@arrays(Opcode.TRANSPOSE, of=(Opcode.DOT,))
def transpose_of_dot(transpose: Instruction, at: Rewriter) -> Made:
    """transpose(dot(x, y)) => dot(y, x), where the transpose exchanges what is left of x and y"""
    dot = transpose.operands[0]
    if dot.opcode is not Opcode.DOT or not has_one_user(dot) or not are_plain(*dot.operands):
        return None
    lhs, rhs = dot_roles(dot)
    if dimensions(transpose) != (*range(len(lhs.batch)), *rhs.in_result, *lhs.in_result):
        return None
    how = _how(dot)
    n = how.dimensions
    numbers = DotDimensions(n.rhs_contracting, n.lhs_contracting, n.rhs_batch, n.lhs_batch)
    precision = how.precision
    if precision.operand_precision:
        swapped = tuple(reversed(precision.operand_precision))
        precision = replace(precision, operand_precision=swapped)
    a, b = dot.operands
    return at.build.dot(at(b), at(a), numbers, precision, dot.shape.element_type)


# -- reshapes and parts ------------------------------------------------------------------------


@arrays(Opcode.DOT)
def dot_of_free_units(dot: Instruction, at: Rewriter) -> Made:
    """dot(reshape(x), y) => reshape(dot(x, y)), where the reshape adds free sizes of 1"""
    for i, x in enumerate(dot.operands):
        if x.opcode is not Opcode.RESHAPE or not is_plain(x.operands[0].shape):
            continue
        source = x.operands[0]
        old, new = source.shape.dimensions, x.shape.dimensions
        roles = dot_roles(dot)[i]
        units = [d for d in roles.free if new[d] == 1]
        if old != without_units(new) or len(new) - len(old) != len(units) or not units:
            continue
        place = {d: j for j, d in enumerate([d for d in range(len(new)) if d not in units])}
        result = _with_side(
            at,
            dot,
            i,
            at(source),
            tuple([place[d] for d in roles.batch]),
            tuple([place[d] for d in roles.contracted]),
        )
        return at.build.reshape(result, dot.shape.dimensions)
    return None


@exact_on_integer_arrays(Opcode.DOT)
def dot_of_concatenates(dot: Instruction, at: Rewriter) -> Made:
    """dot(concatenate(a, b), concatenate(c, d)) => dot(a, c) + dot(b, d), contracted along them"""
    n = _how(dot).dimensions
    left, right = dot.operands
    if len(n.lhs_contracting) != 1 or not _of_one_type(dot):
        return None
    for x, d in ((left, n.lhs_contracting[0]), (right, n.rhs_contracting[0])):
        if x.opcode is not Opcode.CONCATENATE or dimensions(x) != (d,) or not has_one_user(x):
            return None
        if len(x.operands) > 3 or not is_uniform(x):
            return None
    splits = [[y.shape.dimensions[dimensions(x)[0]] for y in x.operands] for x in (left, right)]
    if splits[0] != splits[1] or dot.shape.nbytes > left.shape.nbytes + right.shape.nbytes:
        return None
    parts = [
        _redone(at, dot, at(a), at(b), n)
        for a, b in zip(left.operands, right.operands, strict=True)
    ]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result
