"""The functions of a kernel of loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from lowtide.codegen.cpu.cost import loop_seconds, vector_cycles
from lowtide.codegen.cpu.element_streaming import either, is_large
from lowtide.codegen.cpu.loop_nest import Job, LoopNest, nest_of
from lowtide.codegen.cpu.loop_writer import LoopWriter
from lowtide.codegen.cpu.order import cost_of_one
from lowtide.codegen.domain import Box, Visit, alike, together
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.elementwise.memory import STREAMED
from lowtide.codegen.parts import KernelPart


def nests_of(job: Job, boxes: Sequence[Box], visit: Visit) -> Iterator[LoopNest]:
    """Yield the loops over boxes; those that read the same elements are gone through together.

    Tiles have one box each.
    """
    for group in alike(boxes):
        joined = together(group, job.target, visit)
        nest = nest_of(job, *joined) if joined is not None else None
        if nest is not None and nest.order.tiled is None:
            yield nest
        else:
            yield from [nest_of(job, *x) for x in group]


def loop_part(nest: LoopNest, name: str) -> KernelPart:
    """Return the function that computes and stores the elements of outputs."""
    job = nest.job
    units = nest.pieces.units
    plain = LoopWriter(nest, name)
    plain.write()
    each = _seconds(nest, plain.elements) / units
    if not _is_streamed(nest):
        return KernelPart(plain.function, units, each, plain.globals)
    plain.function.name = f"{name}_cached"
    streaming = LoopWriter(nest, f"{name}_streamed", is_streaming=True)
    streaming.write()
    both = (plain.function, streaming.function)
    arrays = [x.array for x in job.outputs]
    chosen = either(job.instruction, arrays, name, *both)
    return KernelPart(chosen, units, each, f"{streaming.globals}\n{STREAMED}", both)


def _is_streamed(nest: LoopNest) -> bool:
    """Whether results are too large for caches; tiles have to store whole lines of them."""
    job, lanes = nest.job, nest.order.lanes
    results = leaves(job.instruction.shape)
    kept = [results[x.array] for x in job.outputs]
    boxes = 1 + len(nest.domain.others)
    nbytes = boxes * prod(nest.domain.sizes) * sum([x.element_type.nbytes for x in kept])
    if not lanes or not is_large(job.target, nbytes):
        return False
    return nest.order.tiled is None or all(x.element_type.nbytes * lanes >= 64 for x in kept)


def _seconds(nest: LoopNest, written: Elements) -> float:
    """About how long all elements take; of one element what was `written` is looked at."""
    order, count = nest.order, prod(nest.space.sizes)
    cost, nbytes = order.cost, order.nbytes
    if count == 1 and not nbytes:
        cost, nbytes = cost_of_one(written)
    lanes = max(order.lanes // order.abreast, 1)
    computing = vector_cycles(members(nest.job.instruction)) / lanes
    return loop_seconds(nbytes, count * (computing + cost))
