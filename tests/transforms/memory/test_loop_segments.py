"""Loops run again in segments: the same values, and stacks of a segment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.transforms.memory.loop_programs import Program, drawn, module_of, with_uses

from lowtide.analysis.loop_trip_count import trip_count
from lowtide.evaluator import evaluate
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.testing.check_pass import seeded_arguments
from lowtide.transforms.memory.loop_residuals.recompute import recompute_loop_residuals
from lowtide.transforms.memory.loop_segments.segments import segment_loops
from lowtide.verifier import verify


def program_of(seed: int, steps: int) -> Program:
    program = replace(drawn(seed, size=9), steps=steps, reverse=seed % 4 == 0)
    return with_uses(program, seed)


def loops(module: Module) -> list[int]:
    """Return how often each loop of a module runs, in order."""
    found = [
        trip_count(x)
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.WHILE
    ]
    return sorted([0 if x is None else x.count for x in found])


@pytest.mark.parametrize("recomputed", [False, True])
def test_values_stay_the_same_bit_for_bit(recomputed: bool) -> None:
    changed = 0
    for seed in range(120):
        steps, length = ((4, 2), (6, 2), (6, 3), (8, 4))[seed % 4]
        module = module_of(program_of(seed, steps))
        if recomputed:
            recompute_loop_residuals(module)
        after = clone_module(module)
        count = segment_loops(after, length=length)
        changed += count
        verify(after)
        arguments = seeded_arguments(module, seed)
        for x, y in zip(evaluate(module, arguments), evaluate(after, arguments), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}")
        if count:
            assert loops(after) == sorted([steps, steps // length, length, length]), seed
            assert segment_loops(after, length=length) == 0, seed
    assert changed > 20


def test_what_does_not_divide_or_does_not_pay_stays() -> None:
    program = program_of(1, 6)
    for length in (4, 6, 7):
        assert segment_loops(module_of(program), length=length) == 0
    one = replace(program, stacked=program.stacked[:1], used=("whole",), shared=None)
    assert segment_loops(module_of(one), length=2) == 0
