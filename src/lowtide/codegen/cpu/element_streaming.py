"""Arrays that caches have no room for: results stored past them, operands fetched ahead of use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.cost import vector_cycles
from lowtide.codegen.cpu.fetching import fetching_for
from lowtide.codegen.cpu.tiles import LINE
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.indexing import Affine
from lowtide.codegen.kernel import ARGUMENTS
from lowtide.ir import Instruction, Shape
from lowtide.llvm.callee import external
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

STREAMED_BYTES: Final = 8 << 20
"""Bytes of results from which on they are stored past the caches, which have no room for them."""

FETCHED_BYTES: Final = 2 << 20
"""Bytes of an operand from which on it is fetched ahead: the processor does so itself, but too late
where it reads one array only."""

_RUNS: Final = 4
"""How many times as long as what is fetched ahead a stretch of memory is at least, and
how many times as many runs as are skipped there are."""

_MOST_RUNS: Final = 4
"""How many runs ahead at most is fetched: caches have few places for lines that lie far apart."""


_KEPT_BYTES: Final = 128 << 10
"""Bytes of an array that caches are sure to keep until they are read again."""


def stored_bytes(shape: Shape) -> int:
    """Return the bytes of an array."""
    return shape.element_count * shape.element_type.nbytes


def is_large(target: Target, nbytes: int) -> bool:
    """Whether results of so many bytes in all are stored past the caches."""
    return nbytes >= STREAMED_BYTES and target.triple.startswith("x86_64")


def either(
    instruction: Instruction,
    arrays: Sequence[int],
    name: str,
    cached: Function,
    streaming: Function,
) -> Function:
    """Return a function that runs one of two: results past the caches if they begin at 64 bytes.

    `arrays` are the numbers of the results that are stored. What is updated in place is in the
    caches anyway.
    """
    fn = Function(name, ARGUMENTS)
    count = sum([len(leaves(x.shape)) for x in instruction.operands])
    pointers = [
        fn.load("ptr", fn.gep("%buffers", i, "ptr"), 8)
        for i in range(count + len(leaves(instruction.shape)))
    ]
    fits = "true"
    for array in arrays:
        result = pointers[count + array]
        low = fn.op(f"and i64 {fn.op(f'ptrtoint ptr {result} to i64')}, 63")
        tests = [fn.compare("eq", low, 0)]
        tests += [fn.op(f"icmp ne ptr {result}, {x}") for x in pointers[:count]]
        for test in tests:
            fits = fn.op(f"and i1 {fits}, {test}")

    def call(function: Function) -> list[str]:
        fn.call(function, ["%buffers", "%scratch", "%begin", "%end", "%thread"])
        return []

    fn.choose(fits, [], lambda: call(streaming), lambda: call(cached))
    return fn


def fence(fn: Function) -> None:
    """Have what was stored past the caches be seen before anything that is stored later."""
    fn.call(external("llvm.x86.sse.sfence", "void"), [])


def cache_for(target: Target, instruction: Instruction, points: int) -> int:
    """Return the number of the cache to fetch into, by what a kernel computes at each point."""
    busy = [x for x in members(instruction) if x.shape.is_array and x.shape.element_count == points]
    return 1 if vector_cycles(busy) >= fetching_for(target).busy else 2


def fetch_ahead(
    elements: Elements, reads: Sequence[tuple[Array, Affine]], ahead: int, cache: int
) -> None:
    """Fetch what is read some bytes behind vectors that were read, of large arrays.

    It may lie behind the end of the array: a prefetch touches no memory that is not there.
    """
    fn = elements.function
    written = {array.pointer for array, _ in elements.writes}
    for array, place in _foremost(reads):
        distance = 0 if array.pointer in written else _distance(array, place, ahead)
        if not distance or elements.scopes.placed(place.level) != elements.scopes.level:
            continue
        here = elements.address(array, place)
        nbytes = elements.lanes * array.shape.element_type.nbytes
        for line in range(0, max(nbytes, 1), LINE):
            behind = fn.op(f"getelementptr i8, ptr {here}, i64 {distance + line}")
            fn.prefetch(behind, cache)


def _foremost(reads: Sequence[tuple[Array, Affine]]) -> list[tuple[Array, Affine]]:
    """Return the reads without those of elements that another one has had not long before."""
    found: list[tuple[Array, Affine]] = []
    known: dict[tuple[Array, object], int] = {}
    for array, place in sorted(dict.fromkeys(reads), key=lambda x: -x[1].constant):
        later = known.get((array, place.terms))
        known[array, place.terms] = place.constant
        apart = (
            _KEPT_BYTES
            if later is None
            else (later - place.constant) * array.shape.element_type.nbytes
        )
        if apart >= _KEPT_BYTES:
            found.append((array, place))
    return found


def _distance(array: Array, place: Affine, ahead: int) -> int:
    """Return how far off lies what is read `ahead` bytes later, 0 where it is not to be fetched.

    Loops count from the innermost one on, up to one that leaves elements out for the next ones.
    Where all of them together read little, it is that one which goes on from run to run: processors
    do not see by themselves where the next run begins.
    """
    nbytes = array.shape.element_type.nbytes
    if place.lane_step != 1 or stored_bytes(array.shape) < FETCHED_BYTES:
        return 0
    run = 1
    for variable, step in sorted(place.terms, key=lambda x: (-x[0].level, x[1])):
        if not 0 < step <= run:
            break
        run += step * (variable.extent - 1)
    else:
        return ahead if run * nbytes >= _RUNS * ahead else 0
    if run * nbytes >= _RUNS * ahead:
        return ahead
    runs = min(_MOST_RUNS, -(-ahead // (run * nbytes)))
    return runs * step * nbytes if variable.extent >= _RUNS * runs else 0
