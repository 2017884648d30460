"""Products that share an operand made one product, where that takes no more memory.

No stage runs this pass: it is there for pipelines that name it.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Final

from lowtide.builder import Builder
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Dot, Slice
from lowtide.ir.traversal import post_order
from lowtide.ops.dot_roles import dot_roles
from lowtide.passes.editing import remove_with_operands, substitute
from lowtide.passes.interface import Pass, example
from lowtide.passes.matching import is_plain

_FAR: Final = 256
"""How many instructions may be searched for a product on which another one depends."""


def merge_dots(module: Module) -> int:
    """Make one dot of several that share an operand; return how many dots went.

    The other operands have one dimension that is neither contracted nor batch, and are either
    neighbouring slices of one array, which is read whole then, or so small together, with the
    results, that joining them costs less than a quarter of what reading the shared operand does.
    """
    return sum([_merge_in(computation) for computation in module.computations.values()])


def _merge_in(computation: Computation) -> int:
    gone = 0
    while made := _merge_once(computation):
        gone += made  # Merged over one operand, products may come to share the other.
    return gone


def _merge_once(computation: Computation) -> int:
    groups: dict[Hashable, list[Instruction]] = {}
    for x in post_order(computation):
        if x.opcode is Opcode.DOT and not x.has_control_edges:
            for shared in (0, 1):
                key = _key(x, shared)
                if key is not None:
                    groups.setdefault(key, []).append(x)
    gone = 0
    for key, dots in groups.items():
        shared = key[0] if isinstance(key, tuple) else 0
        present = [x for x in dots if computation.instructions.get(x.name) is x]
        if len(present) > 1:
            gone += _merge(present, int(shared))
    return gone


def _key(x: Instruction, shared: int) -> Hashable | None:
    """Return what dots have in common that can be merged over operand `shared`."""
    other = x.operands[1 - shared]
    if not all(is_plain(y.shape) for y in (x, *x.operands)) or other is x.operands[shared]:
        return None
    free = _free_dimension(x, 1 - shared)
    if free is None:
        return None
    sizes = list(other.shape.dimensions)
    sizes[free] = 0
    types = (other.shape.element_type, x.shape.element_type)
    return (shared, x.operands[shared], x.attributes, free, tuple(sizes), *types)


def _free_dimension(x: Instruction, side: int) -> int | None:
    """Return the only dimension of an operand that is neither contracted nor batch."""
    free = dot_roles(x)[side].free
    return free[0] if len(free) == 1 else None


def _result_dimension(x: Instruction, side: int) -> int:
    """Return where the free dimension of an operand lies in the result."""
    return dot_roles(x)[side].first


def _merge(dots: list[Instruction], shared: int) -> int:
    """Merge what can be of a group; return how many dots went."""
    side = 1 - shared
    rest: list[Instruction] = []
    by_source: dict[Instruction, list[Instruction]] = {}
    for x in dots:
        other = x.operands[side]
        if _is_cut_along(other, _free_dimension(x, side)):
            by_source.setdefault(other.operands[0], []).append(x)
        else:
            rest.append(x)
    gone = 0
    for source, cut in by_source.items():
        for run in _runs(cut, side):
            _merge_slices(run, source, side)
            gone += len(run) - 1
    if len(rest) > 1 and _is_small(rest, shared) and _are_independent(rest, side):
        _merge_joined(rest, side)
        gone += len(rest) - 1
    return gone


# -- slices of one array -----------------------------------------------------------------------


def _is_cut_along(x: Instruction, dimension: int | None) -> bool:
    """Whether an instruction is a slice of a plain array along one dimension only."""
    if x.opcode is not Opcode.SLICE or dimension is None or not is_plain(x.operands[0].shape):
        return False
    cut, sizes = x.attributes_as(Slice), x.operands[0].shape.dimensions
    return all(
        stride == 1 and (d == dimension or (start == 0 and limit == sizes[d]))
        for d, (start, limit, stride) in enumerate(
            zip(cut.starts, cut.limits, cut.strides, strict=True)
        )
    )


def _bounds(x: Instruction, side: int) -> tuple[int, int]:
    free = _free_dimension(x, side)
    assert free is not None, "checked by _key"
    cut = x.operands[side].attributes_as(Slice)
    return cut.starts[free], cut.limits[free]


def _runs(dots: list[Instruction], side: int) -> list[list[Instruction]]:
    """Return the dots in runs of slices that follow each other without gaps."""
    ordered = sorted(dots, key=lambda x: _bounds(x, side))
    runs = [ordered[:1]]
    for before, after in pairwise(ordered):
        if _bounds(before, side)[1] == _bounds(after, side)[0]:
            runs[-1].append(after)
        else:
            runs.append([after])
    return [run for run in runs if len(run) > 1 and _saves(run, side)]


def _saves(run: list[Instruction], side: int) -> bool:
    """Whether the results are no larger than what is read and written less."""
    results = sum([x.shape.nbytes for x in run])
    slices = sum([x.operands[side].shape.nbytes for x in run])
    return results <= slices + run[0].operands[1 - side].shape.nbytes


def _merge_slices(run: list[Instruction], source: Instruction, side: int) -> None:
    first = run[0]
    free = _free_dimension(first, side)
    assert free is not None, "checked by _key"
    start, limit = _bounds(first, side)[0], _bounds(run[-1], side)[1]
    whole = source
    if (start, limit) != (0, source.shape.dimensions[free]):
        starts, limits = [0] * source.shape.rank, list(source.shape.dimensions)
        starts[free], limits[free] = start, limit
        build = Builder.inside(first.parent)
        whole = build.slice(build.value(source), starts, limits).instruction
        whole.set_metadata(first.operands[side].raw_metadata)
    _take_parts(run, whole, side)


# -- small operands joined ---------------------------------------------------------------------


def _is_small(dots: list[Instruction], shared: int) -> bool:
    moved = sum([x.shape.nbytes + x.operands[1 - shared].shape.nbytes for x in dots])
    return 4 * moved <= dots[0].operands[shared].shape.nbytes


def _are_independent(dots: list[Instruction], side: int) -> bool:
    """Whether no operand to be joined depends on another of the dots; False where it is far."""
    products = set(dots)
    seen: set[Instruction] = set()
    waiting = [x.operands[side] for x in dots]
    while waiting:
        x = waiting.pop()
        if x in products or len(seen) > _FAR:
            return False
        if x not in seen:
            seen.add(x)
            waiting += [*x.operands, *x.control_predecessors]
    return True


def _merge_joined(dots: list[Instruction], side: int) -> None:
    first = dots[0]
    free = _free_dimension(first, side)
    assert free is not None, "checked by _key"
    build = Builder.inside(first.parent)
    operands = [build.value(x.operands[side]) for x in dots]
    joined = build.concatenate(operands, free).instruction
    joined.set_metadata(first.raw_metadata)
    _take_parts(dots, joined, side)


def _take_parts(dots: list[Instruction], whole: Instruction, side: int) -> None:
    """Make one product with `whole`, and slices of it of the products, which follow each other."""
    first = dots[0]
    build = Builder.inside(first.parent)
    pair = [build.value(first.operands[1 - side])]
    pair.insert(side, build.value(whole))
    numbers = first.attributes_as(Dot)
    element_type = first.shape.element_type
    left, right = pair
    product = build.dot(left, right, numbers.dimensions, numbers.precision, element_type)
    product.instruction.set_metadata(first.raw_metadata)
    place, offset = _result_dimension(first, side), 0
    for x in dots:
        starts, limits = [0] * x.shape.rank, list(product.dimensions)
        starts[place], limits[place] = offset, offset + x.shape.dimensions[place]
        offset = limits[place]
        part = build.slice(product, starts, limits).instruction
        part.set_metadata(x.raw_metadata)
        operands = x.operands
        substitute(x, part)
        x.parent.remove(x)
        for y in operands:
            remove_with_operands(y)


PASSES: Final = (
    Pass(
        "dot-merger",
        merge_dots,
        "Makes one product of several that share an operand, where that takes no more memory.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,12] parameter(1)
- u = f32[16,4] slice(w), slice={[0:16], [0:4]}
- v = f32[16,8] slice(w), slice={[0:16], [4:12]}
- xu = f32[8,4] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
- xv = f32[8,8] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ xw = f32[8,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ xu = f32[8,4] slice(xw), slice={[0:8], [0:4]}
+ xv = f32[8,8] slice(xw), slice={[0:8], [4:12]}
  ROOT r = (f32[8,4], f32[8,8]) tuple(xu, xv)
}
"""
        ),
    ),
)
