"""Each kernel of a program on a device by itself: how long it takes, what it moves.

The sum of all launches beside the time of the program tells what launches and the gaps between
kernels cost, or what is won where kernels run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.thunk import CopyThunk, KernelThunk
from lowtide.ops.cost import cost
from lowtide.runtime.gpu.execution import LoadedGpuProgram

Step = KernelThunk | CopyThunk

KEPT = 12
"""Of so many steps the figures are written down."""

SECONDS = 4e-4
"""About how long a step is repeated for one timing."""

MOST_REPEATED = 40
TIMINGS = 5

_PRODUCTS = frozenset({Opcode.DOT, Opcode.CONVOLUTION})


@dataclass(slots=True)
class Timed:
    """A step, how often a run of the program launches it, and the seconds of one."""

    thunk: Step
    seconds: float
    launches: int = 0

    @property
    def total(self) -> float:
        """The seconds of all launches of a run."""
        return self.launches * self.seconds


def profile(module: Module, program: LoadedGpuProgram) -> dict[str, Any]:
    """Return what the steps of a program take; its arguments have been placed."""
    found: dict[int, Timed] = {}
    stream = program.driver.stream()

    def seen(thunk: Step) -> None:
        if id(thunk) not in found:
            found[id(thunk)] = Timed(thunk, step_seconds(program, thunk, stream))
        found[id(thunk)].launches += 1

    program.run_in_turn(seen)
    steps = sorted(found.values(), key=lambda x: -x.total)
    known = {x.name: x for y in module.computations.values() for x in y.instructions.values()}
    return {
        "kernel_seconds": sum([x.total for x in steps]),
        "launches": sum([x.launches for x in steps]),
        "steps": len(steps),
        "top": [_told(program, x, known.get(x.thunk.name)) for x in steps[:KEPT]],
    }


def step_seconds(program: LoadedGpuProgram, thunk: Step, stream: int) -> float:
    """Return the median of what one run of a step takes, which has run: its results stay."""
    driver = program.driver
    places = [x for x in thunk.writes if x.nbytes]
    saved = [driver.allocate(x.nbytes) for x in places]
    for copy, place in zip(saved, places, strict=True):
        driver.copy(copy, program.address(place), place.nbytes, stream)
    driver.synchronize(stream)
    found = _repeated(program, thunk, stream)
    for copy, place in zip(saved, places, strict=True):
        driver.copy(program.address(place), copy, place.nbytes, stream)
    driver.synchronize(stream)
    for copy in saved:
        driver.free(copy)
    return found


def _repeated(program: LoadedGpuProgram, thunk: Step, stream: int) -> float:
    """Seconds of one run of a step among others of the same, in a graph."""
    start = program.step(thunk).start
    once = _seconds(program, start, stream, 1)
    count = max(1, min(MOST_REPEATED, round(SECONDS / max(once, 1e-6))))
    return once if count == 1 else _seconds(program, start, stream, count)


def _seconds(
    program: LoadedGpuProgram, start: Callable[[int], None], stream: int, count: int
) -> float:
    driver = program.driver
    driver.begin_capture(stream)
    for _ in range(count):
        start(stream)
    graph = driver.end_capture(stream)
    driver.graph_seconds(graph, stream)
    return median([driver.graph_seconds(graph, stream) for _ in range(TIMINGS)]) / count


def _told(
    program: LoadedGpuProgram, timed: Timed, instruction: Instruction | None
) -> dict[str, Any]:
    thunk = timed.thunk
    nbytes, operations = _work(thunk, instruction)
    kernel = isinstance(thunk, KernelThunk)
    grids = program.program.kernels[thunk.kernel].launches if kernel else ()
    return {
        "template": program.program.kernels[thunk.kernel].template if kernel else "copy",
        "name": thunk.name,
        "grid": [[x.blocks, x.threads] for x in grids],
        "launches": timed.launches,
        "seconds": timed.seconds,
        "bytes": nbytes,
        "operations": operations,
    }


def _work(thunk: Step, instruction: Instruction | None) -> tuple[int, int]:
    """Bytes that a step has to move, of what is sliced a part; of products the operations."""
    if instruction is None or isinstance(thunk, CopyThunk):
        return sum([x.nbytes for x in (*thunk.reads, *thunk.writes)]), 0
    within = [x for y in instruction.called_computations for x in y.instructions.values()]
    has_product = any(x.opcode in _PRODUCTS for x in (instruction, *within))
    work = cost(instruction)
    return int(work.bytes_accessed), int(work.flops) if has_product else 0
