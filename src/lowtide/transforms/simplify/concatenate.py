"""Concatenations: flattened, merged, dropped; and reversals."""

from __future__ import annotations

from lowtide.builder.values import Op
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Dimensions
from lowtide.passes.matching import are_plain, dimensions, has_one_user, is_uniform
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.shapes import changes_unit_dimensions_only
from lowtide.transforms.simplify.slice import Range, ranges_of, sliced
from lowtide.transforms.simplify.support import Made, arrays


def _along(concatenate: Instruction) -> int:
    return dimensions(concatenate)[0]


@arrays(Opcode.CONCATENATE)
def concatenate_one(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(x) => x"""
    x = concatenate.operands[0]
    one = len(concatenate.operands) == 1 and x.shape is concatenate.shape
    return x if one else None


@arrays(Opcode.CONCATENATE)
def concatenate_empty(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(x, y) => concatenate(x), where y has no elements but the result has"""
    operands = concatenate.operands
    kept = [x for x in operands if x.shape.element_count]
    if not kept or len(kept) == len(operands):
        return None
    return at.build.concatenate([at(x) for x in kept], _along(concatenate))


@arrays(Opcode.CONCATENATE)
def concatenate_of_one_array(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(x, x) => reshape(broadcast(x)), which need not be written down

    Where only slices that begin anywhere along the last dimension are taken, elements lie side by
    side in each part, as they do not where each one's place in x is a remainder.
    """
    x, *others = concatenate.operands
    if not others or any(y is not x for y in others) or not x.shape.element_count:
        return None
    along, sizes = _along(concatenate), list(x.shape.dimensions)
    if along == len(sizes) - 1 and _is_sliced_anywhere(concatenate, along):
        return None
    sizes.insert(along, len(concatenate.operands))
    places = [d for d in range(len(sizes)) if d != along]
    repeated = at.build.broadcast(at(x), sizes, places)
    return at.build.reshape(repeated, concatenate.shape.dimensions)


def _may_be_part(x: Instruction, of: Instruction) -> bool:
    same = x.opcode is of.opcode and x.attributes == of.attributes
    return same and has_one_user(x) and is_uniform(x)


@arrays(Opcode.CONCATENATE)
def concatenate_of_concatenate(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(concatenate(x, y), z) => concatenate(x, y, z), along one dimension"""
    user = next(iter(concatenate.users), concatenate)
    if user is not concatenate and is_uniform(user) and _may_be_part(concatenate, user):
        return None  # The outermost takes all of a chain at once.
    flat: list[Op] = []
    waiting = list(reversed(concatenate.operands))
    while waiting:
        x = waiting.pop()
        if _may_be_part(x, concatenate):
            waiting += reversed(x.operands)
        else:
            flat.append(at(x))
    if len(flat) == len(concatenate.operands):
        return None
    return at.build.concatenate(flat, _along(concatenate))


def _joined(
    a: tuple[Instruction, list[Range] | None], b: tuple[Instruction, list[Range]], along: int
) -> list[Range] | None:
    """Return the ranges of the slice that two slices are together, or None."""
    first, second = a[1], b[1]
    if first is None or a[0].operands[0] is not b[0].operands[0]:
        return None
    start, limit, stride = first[along]
    if stride != 1 or second[along][0] != limit or second[along][2] != 1:
        return None
    if first[:along] != second[:along] or first[along + 1 :] != second[along + 1 :]:
        return None
    return [*first[:along], (start, second[along][1], 1), *first[along + 1 :]]


@arrays(Opcode.CONCATENATE)
def concatenate_of_neighbours(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(slice(x), slice(x)) => slice(x), where one goes on where the other ends"""
    along = _along(concatenate)
    runs: list[tuple[Instruction, list[Range] | None]] = []
    for x in concatenate.operands:
        ranges = ranges_of(x) if x.opcode is Opcode.SLICE and are_plain(x.operands[0]) else None
        if runs and ranges is not None and runs[-1][1] is not None:
            joined = _joined(runs[-1], (x, ranges), along)
            if joined is not None:
                runs[-1] = (x, joined)
                continue
        runs.append((x, ranges))
    if len(runs) == len(concatenate.operands):
        return None
    parts = []
    for x, ranges in runs:
        alone = ranges is None or ranges == ranges_of(x)
        parts.append(at(x) if alone or not ranges else sliced(at, at(x.operands[0]), ranges))
    return parts[0] if len(parts) == 1 else at.build.concatenate(parts, along)


@arrays(Opcode.CONCATENATE)
def concatenate_of_broadcasts(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(broadcast(x), broadcast(x)) => broadcast(x), along a repeated dimension"""
    first, *others = concatenate.operands
    if first.opcode is not Opcode.BROADCAST or not others:
        return None
    if _along(concatenate) in dimensions(first) or not are_plain(first.operands[0]):
        return None
    for y in others:
        if y.opcode is not Opcode.BROADCAST or y.attributes != first.attributes:
            return None
        if y.operands[0] is not first.operands[0]:
            return None
    x = at(first.operands[0])
    return at.build.broadcast(x, concatenate.shape.dimensions, dimensions(first))


# -- reverse -----------------------------------------------------------------------------------


@arrays(Opcode.CONCATENATE)
def concatenate_of_reshapes(concatenate: Instruction, at: Rewriter) -> Made:
    """concatenate(reshape(x), reshape(y)) => reshape(concatenate(x, y)), which add sizes of 1"""
    operands = concatenate.operands
    along = _along(concatenate)
    if len(operands) < 2 or any(x.opcode is not Opcode.RESHAPE for x in operands):
        return None
    early = None
    for x in operands:
        source = x.operands[0]
        old, new = source.shape.dimensions, x.shape.dimensions
        if not has_one_user(x) or not are_plain(source) or 1 in old or 0 in old:
            return None
        if not changes_unit_dimensions_only(old, new) or new[along] == 1:
            return None
        place = len([n for n in new[:along] if n != 1])
        if early not in (None, place):
            return None
        early = place
    assert early is not None, "there are operands"
    joined = at.build.concatenate([at(x.operands[0]) for x in operands], early)
    return at.build.reshape(joined, concatenate.shape.dimensions)


def _is_sliced_anywhere(x: Instruction, along: int) -> bool:
    """Whether all users slice it from places along a dimension that are not known."""
    return bool(x.users) and all(
        user.opcode is Opcode.DYNAMIC_SLICE
        and user.operands[0] is x
        and user.operands[1 + along].opcode is not Opcode.CONSTANT
        for user in x.users
    )


@arrays(Opcode.REVERSE)
def reverse_nothing(reverse: Instruction, at: Rewriter) -> Made:
    """reverse(x) => x or reverse(x), without dimensions of size 1"""
    x = reverse.operands[0]
    turned = [d for d in dimensions(reverse) if x.shape.dimensions[d] > 1]
    if len(turned) == len(dimensions(reverse)) and turned:
        return None
    return at.build.reverse(at(x), turned) if turned else x


@arrays(Opcode.REVERSE)
def reverse_of_reverse(reverse: Instruction, at: Rewriter) -> Made:
    """reverse(reverse(x)) => x or reverse(x), along the dimensions that only one turns"""
    inner = reverse.operands[0]
    if inner.opcode is not Opcode.REVERSE or not are_plain(inner.operands[0]):
        return None
    turned = sorted(set(dimensions(inner)) ^ set(dimensions(reverse)))
    x = inner.operands[0]
    return at.build.reverse(at(x), turned) if turned else x


@arrays(Opcode.REVERSE)
def reverse_of_broadcast(reverse: Instruction, at: Rewriter) -> Made:
    """reverse(broadcast(x)) => broadcast(reverse(x)), along the dimensions that x has"""
    inner = reverse.operands[0]
    if inner.opcode is not Opcode.BROADCAST or not are_plain(inner.operands[0]):
        return None
    places = dimensions(inner)
    turned = [i for i, d in enumerate(places) if d in dimensions(reverse)]
    x = at(inner.operands[0])
    if turned:
        x = at.build.reverse(x, turned)
    return at.build.broadcast(x, reverse.shape.dimensions, places)


@arrays(Opcode.REVERSE)
def reverse_of_concatenate(reverse: Instruction, at: Rewriter) -> Made:
    """reverse(concatenate(x, y)) => concatenate(reverse(y), reverse(x)), of sizes 1 along it"""
    inner = reverse.operands[0]
    if inner.opcode is not Opcode.CONCATENATE or not has_one_user(inner):
        return None
    along = _along(inner)
    if dimensions(reverse) != (along,) or not is_uniform(inner):
        return None
    if any(x.shape.dimensions[along] != 1 for x in inner.operands):
        return None
    parts = [at(x) for x in reversed(inner.operands)]
    return at.build.emit(Opcode.CONCATENATE, parts, Dimensions((along,)))
