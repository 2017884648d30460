"""A kernel of loops: the order of the loops, pieces of work, and the function that has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from lowtide.codegen.cost import loop_seconds, vector_cycles, widest
from lowtide.codegen.domain import Domain, Trial
from lowtide.codegen.elementwise.memory import STREAMED
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.codegen.loop import Output, Part
from lowtide.codegen.loop_writer import LoopWriter
from lowtide.codegen.moves import Raw
from lowtide.codegen.operands import leaves, members
from lowtide.codegen.order import Order, order_of
from lowtide.codegen.space import Space, groups_of
from lowtide.ir import Instruction
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

STREAMED_BYTES: Final = 8 << 20
"""Bytes of results from which on they are stored past the caches, which have no room for them."""

_LEAST_PIECE: Final = 8192
_LARGEST_PIECE: Final = 65536
_PIECES: Final = 16
"""Elements of a piece of work, and how many pieces there are where they are neither."""

_TILED: Final = 256
"""Steps of a loop, the tiles of which follow each other: rows of tiles are long enough then."""


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """What a kernel computes: outputs of equal dimensions; `raw` are types that it only moves."""

    instruction: Instruction
    target: Target
    outputs: tuple[Output, ...]
    raw: Raw


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over the positions of a group of axes, `step` at a time."""

    group: int
    size: int
    step: int

    @property
    def trips(self) -> int:
        """How often it runs."""
        return -(-self.size // self.step)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of work: each step of the first `outer` loops, and `block` positions of the next."""

    outer: int
    block: int
    units: int


@dataclass(frozen=True, eq=False, slots=True)
class LoopNest:
    """The loops of a kernel, outermost first, without those that are unrolled or within a tile."""

    job: Job
    domain: Domain
    space: Space
    order: Order
    loops: tuple[Loop, ...]
    pieces: Pieces


def nest_of(job: Job, domain: Domain, trial: Trial) -> LoopNest:
    """Return the loops over a domain."""
    inner = members(job.instruction)
    space = Space(domain.sizes, groups_of(trial, domain.sizes), 0)
    sizes = space.sizes
    most = max(job.target.vector_bytes // widest(inner, job.raw), 2)
    order = order_of(trial, space.groups, sizes, most)
    taken = (order.lane, order.unrolled, order.tiled)
    loops = [Loop(group, size, 1) for group, size in enumerate(sizes) if group not in taken]
    if order.tiled is not None:
        step = max(_TILED // order.rows, 1) * order.rows
        loops.append(Loop(order.tiled, sizes[order.tiled], step))
    loops.append(Loop(order.lane, sizes[order.lane], max(order.lanes, 1)))
    repeated = 1 if order.unrolled is None else sizes[order.unrolled]
    return LoopNest(job, domain, space, order, tuple(loops), _pieces(loops, repeated))


def _pieces(loops: Sequence[Loop], repeated: int) -> Pieces:
    """Loops are split as far out as pieces are small enough."""
    total = prod([x.size for x in loops]) * repeated
    most = min(max(total // _PIECES, _LEAST_PIECE), _LARGEST_PIECE)
    inside = [repeated * prod([x.size for x in loops[i + 1 :]]) for i in range(len(loops))]
    fitting = [i for i, x in enumerate(loops) if x.step * inside[i] <= most]
    outer = fitting[0] if fitting else len(loops) - 1
    loop = loops[outer]
    block = max(most // inside[outer] // loop.step, 1) * loop.step
    count = -(-loop.size // block)
    block = -(-loop.size // count // loop.step) * loop.step
    count = -(-loop.size // block)
    return Pieces(outer, block, prod([x.trips for x in loops[:outer]]) * count)


def loop_part(job: Job, name: str, domain: Domain, trial: Trial) -> Part:
    """Return the function that computes and stores the elements of a domain of outputs."""
    nest = nest_of(job, domain, trial)
    units = nest.pieces.units
    each = _seconds(nest) / units
    plain = LoopWriter(nest, name)
    plain.write()
    if not _is_streamed(nest):
        return Part(plain.function, units, each, plain.globals)
    plain.function.name = f"{name}_cached"
    streaming = LoopWriter(nest, f"{name}_streamed", is_streaming=True)
    streaming.write()
    both = (plain.function, streaming.function)
    chosen = _either(nest, name, *both)
    return Part(chosen, units, each, f"{streaming.globals}\n{STREAMED}", both)


def _is_streamed(nest: LoopNest) -> bool:
    """Whether results are too large for caches; tiles have to store whole lines of them."""
    job, lanes = nest.job, nest.order.lanes
    if not lanes or not job.target.triple.startswith("x86_64"):
        return False
    results = leaves(job.instruction.shape)
    kept = [results[x.array] for x in job.outputs]
    if prod(nest.domain.sizes) * sum([x.element_type.nbytes for x in kept]) < STREAMED_BYTES:
        return False
    return nest.order.tiled is None or all(x.element_type.nbytes * lanes >= 64 for x in kept)


def _either(nest: LoopNest, name: str, cached: Function, streaming: Function) -> Function:
    """A function that runs one of two: results past the caches if they begin at lines of their own.

    What is updated in place is in the caches anyway.
    """
    fn = Function(name, ARGUMENTS)
    job = nest.job
    count = sum([len(leaves(x.shape)) for x in job.instruction.operands])
    pointers = [
        fn.load("ptr", fn.gep("%buffers", i, "ptr"), 8)
        for i in range(count + len(leaves(job.instruction.shape)))
    ]
    fits = "true"
    for output in job.outputs:
        result = pointers[count + output.array]
        low = fn.op(f"and i64 {fn.op(f'ptrtoint ptr {result} to i64')}, 63")
        tests = [fn.compare("eq", low, 0)]
        tests += [fn.op(f"icmp ne ptr {result}, {x}") for x in pointers[:count]]
        for test in tests:
            fits = fn.op(f"and i1 {fits}, {test}")
    given = "ptr %buffers, ptr %scratch, i64 %begin, i64 %end, i64 %thread"

    def call(function: Function) -> list[str]:
        fn.do(f"call void @{function.name}({given})")
        return []

    fn.choose(fits, [], lambda: call(streaming), lambda: call(cached))
    return fn


def _seconds(nest: LoopNest) -> float:
    """About how long all elements take."""
    order = nest.order
    computing = vector_cycles(members(nest.job.instruction)) / max(order.lanes, 1)
    return loop_seconds(order.nbytes, prod(nest.space.sizes) * (computing + order.cost))
