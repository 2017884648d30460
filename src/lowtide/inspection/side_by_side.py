"""A module in native code beside XLA:CPU: compiled, compared, and timed in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from lowtide.client.executable import compile_module
from lowtide.evaluator import value_leaves
from lowtide.inspection.roundings import beyond_noise, first_difference, moved_by_roundings
from lowtide.inspection.xla_program import XlaProgram
from lowtide.ir import ElementType, Module
from lowtide.ir.clone import clone_module
from lowtide.ir.gpu_names import EMULATED
from lowtide.ir.literal import Array
from lowtide.options import Options
from lowtide.records import dataclass

SLICE_SECONDS: Final = 0.02
"""How long one side runs before it is the other one's turn, at least one call."""

LEAST_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class CompilerSide:
    """One side: seconds to compile and per call (of each turn), bytes beyond the arguments."""

    compile_seconds: float
    needed_bytes: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of a call's seconds."""
        return median(self.seconds)

    @property
    def least(self) -> float:
        """The least of a call's seconds."""
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class ResultAgreement:
    """How far results of both sides are apart.

    `difference` is the largest one of all results, relative to the greatest magnitude of the array;
    `wrong` says which result is further off than rounding explains, "" for none. Where it is
    `sensitive`, XLA's own results move about as far when arguments move by their last bit.
    """

    difference: float
    wrong: str = ""
    sensitive: bool = False


EQUAL: Final = ResultAgreement(0.0)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Both sides, the other one None for the reason `missing`, and how their results agree.

    `device` is the graphics processor that ours ran on, "" for none.
    """

    threads: int
    ours: CompilerSide
    theirs: CompilerSide | None
    missing: str = ""
    agreement: ResultAgreement = EQUAL
    device: str = ""


def compare(
    module: Module, arguments: Sequence[Any], options: Options, seconds: float
) -> SideBySide:
    """Return how native code and XLA:CPU do on a module, timed for about so many seconds.

    Both get the module without aliases, so that each call takes the same arguments. Call it before
    JAX is used: XLA takes as many threads as the process has cores at that time, which `options`
    limit here. Raises what `compile_module` raises.
    """
    module = without_aliases(module)
    threads = options.thread_count
    with _on_cores(threads):
        ours = compile_module(module, replace(options, cache=False))
        theirs, missing = _theirs(module, arguments)
        given = [np.array(x) for x in arguments]
        calls: list[Callable[[], Any]] = [lambda: ours(*given)]
        agreement = EQUAL
        if theirs is not None:
            found = [np.asarray(x) for x in value_leaves(ours(*given)) if x is not None]
            agreement = agreed(module, found, theirs, given)
            calls.append(theirs)
        times = in_turns(calls, seconds)
    first = CompilerSide(sum(ours.making.seconds.values()), ours.arena_bytes, times[0])
    if theirs is None:
        return SideBySide(threads, first, None, missing)
    second = CompilerSide(theirs.compile_seconds, theirs.needed_bytes, times[1])
    return SideBySide(threads, first, second, agreement=agreement)


def alone_on_gpu(
    module: Module, arguments: Sequence[Any], options: Options, seconds: float
) -> SideBySide:
    """Return how a module does on the graphics processor of the options, timed for about as long.

    Copies of arguments and results are in each call. Raises what `compile_for_device` raises.
    """
    from lowtide.client.gpu import compile_for_device

    start = perf_counter()
    ours = compile_for_device(without_aliases(module), replace(options, cache=False))
    took = perf_counter() - start
    given = [np.array(x) for x in arguments]
    times = in_turns([lambda: ours(*given)], seconds)
    found = CompilerSide(took, ours.arena_bytes, times[0])
    missing = "programs for a GPU run alone"
    if options.target == EMULATED:
        missing = "times of an emulated device say nothing of a real one"
    return SideBySide(1, found, None, missing, device=ours.device)


def without_aliases(module: Module) -> Module:
    """Return a copy in which no argument is overwritten."""
    copy = clone_module(module)
    copy.input_output_aliases = ()
    copy.buffer_donors = ()
    return copy


def _theirs(module: Module, arguments: Sequence[Any]) -> tuple[XlaProgram | None, str]:
    try:
        program = XlaProgram(module)
        program.take(arguments)
        program()
    except ImportError:
        return None, "jaxlib is not installed"
    except Exception as error:  # XLA and JAX raise what they like; the user sees it.
        return None, f"XLA: {type(error).__name__}: {error}".partition("\n")[0]
    return program, ""


@contextmanager
def _on_cores(count: int) -> Iterator[None]:
    """Let the threads that are started here have `count` cores only."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def in_turns(calls: Sequence[Callable[[], Any]], seconds: float) -> list[tuple[float, ...]]:
    """Return, for each call, its seconds in each of its turns, which take `seconds` in all."""
    counts = []
    for call in calls:
        call()
        start = perf_counter()
        call()
        counts.append(max(1, int(SLICE_SECONDS / max(perf_counter() - start, 1e-7))))
    times: list[list[float]] = [[] for _ in calls]
    end = perf_counter() + seconds
    while len(times[0]) < LEAST_ROUNDS or perf_counter() < end:
        for call, count, found in zip(calls, counts, times, strict=True):
            start = perf_counter()
            for _ in range(count):
                call()
            found.append((perf_counter() - start) / count)
    return [tuple(x) for x in times]


FACTOR: Final = 256.0
"""By how much errors of whole programs may exceed those of one operation."""


def agreed(
    module: Module, ours: Sequence[Array], theirs: XlaProgram, arguments: Sequence[Array]
) -> ResultAgreement:
    """Return how our results agree with those of XLA, which has taken the arguments.

    Where they are further apart than sums in another order are, XLA runs on arguments moved by
    roundings: a recurrence over random numbers can make anything of its last bits.
    """
    expected = [_like(a, b) for a, b in zip(ours, theirs.results(), strict=True)]
    shape = module.entry.root.shape
    leaves = [leaf for _, leaf in shape.leaves() if leaf.is_array]
    pairs = zip(ours, expected, leaves, strict=True)
    largest = max([_relative(a, b, leaf.element_type) for a, b, leaf in pairs], default=0.0)
    apart = first_difference(shape, ours, expected, FACTOR)
    if apart is None:
        return ResultAgreement(largest)
    noises = []
    for moved in moved_by_roundings(arguments):
        theirs.take(moved)
        noises.append([_like(a, b) for a, b in zip(ours, theirs.results(), strict=True)])
    theirs.take(arguments)
    wrong = beyond_noise(shape, ours, expected, noises, FACTOR)
    return ResultAgreement(largest, wrong, sensitive=not wrong)


def _like(ours: Array, theirs: Array) -> Array:
    return np.asarray(theirs).astype(ours.dtype)


def _relative(a: Array, b: Array, element_type: ElementType) -> float:
    wide = np.complex128 if element_type.is_complex else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(same, 0.0, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf))
        magnitude = np.abs(y)
    scale = float(np.max(magnitude[np.isfinite(magnitude)], initial=0.0))
    worst = float(np.max(apart, initial=0.0))
    return worst / scale if scale else worst
