"""Heap algorithms made of other ones."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.planning.heap.steps import HeapAlgorithm, HeapLayout, HeapStep, HeapStepKind


def in_runs_of_decreasing_size(algorithm: HeapAlgorithm) -> HeapAlgorithm:
    """Return an algorithm to which each run of allocations, and of frees, comes largest first.

    Ties are broken by the number of the buffer. A shared buffer ends a run.
    """

    def sorted_runs(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return algorithm(_sorted_runs(steps), alignment)

    return sorted_runs


def _sorted_runs(steps: Sequence[HeapStep]) -> list[HeapStep]:
    ordered: list[HeapStep] = []
    run: list[HeapStep] = []
    for step in steps:
        if run and (run[-1].kind is not step.kind or step.kind is HeapStepKind.SHARE):
            ordered += sorted(run, key=_largest_first)
            run = []
        run.append(step)
    return ordered + sorted(run, key=_largest_first)


def _largest_first(step: HeapStep) -> tuple[int, int]:
    return -step.nbytes, step.buffer


def best_of(algorithms: Sequence[HeapAlgorithm]) -> HeapAlgorithm:
    """Return an algorithm that takes the smallest of several layouts, the first of equal ones."""

    def choose(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        return min([run(steps, alignment) for run in algorithms], key=_layout_bytes)

    return choose


def _layout_bytes(layout: HeapLayout) -> int:
    return layout.nbytes


def with_fallback(algorithm: HeapAlgorithm, fallback: HeapAlgorithm, limit: int) -> HeapAlgorithm:
    """Return an algorithm that resorts to `fallback` where the layout exceeds `limit` bytes."""

    def choose(steps: Sequence[HeapStep], alignment: int) -> HeapLayout:
        layout = algorithm(steps, alignment)
        return layout if layout.nbytes <= limit else fallback(steps, alignment)

    return choose
