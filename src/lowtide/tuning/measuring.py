"""Times of kernels, measured on arrays of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final

import numpy as np

from lowtide.codegen.cpu.kernels import scratch_of
from lowtide.files.object_cache import ObjectCache
from lowtide.ir import ElementType, Shape
from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import array_shape
from lowtide.ir.thunk import KernelThunk
from lowtide.llvm.objects import compile_modules, unit_object
from lowtide.llvm.target import Target, host_target
from lowtide.native import NativeUnit
from lowtide.runtime.cpu.arena import LINE, aligned
from lowtide.runtime.cpu.arguments import Argument
from lowtide.runtime.cpu.call import LinkedExecutable
from lowtide.runtime.cpu.program import Interface, Memory, NativeProgram
from lowtide.tuning.candidates import Candidate, Tunable

SLICE_SECONDS: Final = 1e-3
"""How long one way runs before the next one does, or one call."""

TURNS: Final = 4
"""Turns of each way at least, the first of which does not count."""

OVERTIME: Final = 4
"""How many times as long as it should take measuring may take, to have so many turns."""

LEAST: Final = 1e-9
"""Seconds that anything takes."""

_PERIOD: Final = 4093
"""Elements after which values repeat."""


def measure(
    work: Tunable,
    candidates: Sequence[Candidate],
    target: Target,
    threads: int,
    objects: ObjectCache,
    seconds: float,
) -> list[float]:
    """Return the seconds that each way takes, measured in turns for about `seconds` together.

    What takes less than the first way is measured once more, beside that. It gets the worse of both
    times, and the first way the better: chance rarely favours the same way twice.
    """
    codes = compile_modules([x.text for x in candidates], target, objects)
    operands, results = work.arrays
    arrays = [filled(x) for x in operands]
    calls = []
    for x, code in zip(candidates, codes, strict=True):
        program = program_of(x, code, operands, results, target, threads)
        executable = LinkedExecutable(program, partial(_unit_object, objects))
        calls.append(partial(executable, *arrays))
    found = in_turns(calls, seconds / 2)
    faster = [i for i, x in enumerate(found) if x < found[0]]
    if faster:
        first, *again = in_turns([calls[0], *[calls[i] for i in faster]], seconds / 2)
        found[0] = min(found[0], first)
        for i, took in zip(faster, again, strict=True):
            found[i] = max(found[i], took)
    return found


def _unit_object(objects: ObjectCache, unit: NativeUnit) -> bytes:
    return unit_object(unit, host_target(), objects)


def in_turns(
    calls: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], float] = perf_counter
) -> list[float]:
    """Return the least seconds per call of each, measured in turns for about `seconds`.

    The first turn does not count. It takes longer where there would be less than `TURNS`, as long
    as it is `OVERTIME` times that; two turns there are in any case.
    """
    best = [float("inf")] * len(calls)
    counts = [1] * len(calls)
    begin = clock()
    turns = 0
    while turns < 2 or clock() - begin < (seconds if turns >= TURNS else OVERTIME * seconds):
        for number, call in enumerate(calls):
            start = clock()
            for _ in range(counts[number]):
                call()
            took = max(clock() - start, LEAST) / counts[number]
            if turns:
                best[number] = min(best[number], took)
            counts[number] = max(1, int(SLICE_SECONDS / took))
        turns += 1
    return best


def program_of(
    candidate: Candidate,
    code: bytes,
    operands: Sequence[Shape],
    results: Sequence[Shape],
    target: Target,
    threads: int,
) -> NativeProgram:
    """Return a program that runs one kernel on its arguments, as bytes; results stay inside."""
    memories = [
        Memory(AllocationKind.ARGUMENT, x.nbytes, argument=i) for i, x in enumerate(operands)
    ]
    arguments = [
        Argument(f"operand {i}", _bytes_of(x), i if x.nbytes else -1)
        for i, x in enumerate(operands)
    ]
    places, end = [], 0
    for nbytes in (*[x.nbytes for x in results], scratch_of(candidate.plan, threads)):
        places.append(BufferSlice(len(operands), end, nbytes))
        end += -(-nbytes // LINE) * LINE
    memories.append(Memory(AllocationKind.ARENA, end))
    buffers = [BufferSlice(i, 0, x.nbytes) for i, x in enumerate(operands)]
    thunk = KernelThunk("kernel", 0, (*buffers, *places[:-1]), len(operands), places[-1])
    interface = Interface(tuple(memories), tuple(arguments), (), ())
    entries = (candidate.entry,)
    return NativeProgram("tuning", target, threads, (thunk,), entries, (code,), interface)


def _bytes_of(shape: Shape) -> Shape:
    return array_shape(ElementType.U8, (shape.nbytes,))


def filled(shape: Shape) -> Any:
    """Return the bytes of an array of small numbers, which no arithmetic makes infinite soon."""
    dtype = DTYPES[shape.element_type]
    chosen = np.random.default_rng(0)
    if np.dtype(dtype).kind in "biu":
        values = chosen.integers(0, 2, _PERIOD).astype(dtype)
    else:
        values = chosen.uniform(0.5, 1.0, _PERIOD).astype(dtype)
    return aligned(np.resize(values, shape.nbytes // dtype.itemsize).view(np.uint8))
