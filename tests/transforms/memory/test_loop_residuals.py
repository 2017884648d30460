"""Loops that stack and loops that read: the same values from fewer stacks, and the fewest bytes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from tests.transforms.memory.loop_programs import (
    SIZES,
    WIDTH,
    Program,
    canonical,
    drawn,
    module_of,
    stacked_bytes,
    with_uses,
)

from lowtide.evaluator import evaluate
from lowtide.ir.clone import clone_module
from lowtide.testing.check_pass import seeded_arguments
from lowtide.transforms.memory.loop_residuals.recompute import recompute_loop_residuals
from lowtide.verifier import verify


@pytest.mark.parametrize("contractions", [False, True])
def test_values_stay_the_same_bit_for_bit(contractions: bool) -> None:
    changed = 0
    for seed in range(150):
        program = drawn(seed)
        module = module_of(with_uses(program, seed) if seed % 2 else program)
        after = clone_module(module)
        changed += bool(recompute_loop_residuals(after, contractions=contractions))
        verify(after)
        arguments = seeded_arguments(module, seed)
        for x, y in zip(evaluate(module, arguments), evaluate(after, arguments), strict=True):
            np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}")
        assert stacked_bytes(after, program.steps) <= stacked_bytes(module, program.steps), seed
        assert not recompute_loop_residuals(after, contractions=contractions), seed
    assert changed > 50


def least_bytes(program: Program, *, contractions: bool) -> int:
    """Return the least that has to be stacked, by trying all sets of values."""
    same = canonical(program.values)
    values = {same[x.name]: x for x in reversed(program.values)}
    known = {same[x.name] for x in program.values if x.source == "known"}
    if program.shared is not None:
        known.add(same[program.shared])
    needed = {same[x] for x in program.stacked} - known
    made = {
        name: {same[y] for y in x.reads}
        for name, x in values.items()
        if x.source == "computed" or (contractions and x.source == "contracted")
    }
    reads = {name: {same[y] for y in x.reads} for name, x in values.items()}
    free = closure(known, made, {})
    every = {x: y for x, y in ends(program, same).items() if y not in known and x not in free}
    followed = {x: y for x, y in every.items() if x not in made or y in ancestors(x, reads)}
    others = [x for x in values if x not in known]
    sizes = {x: 4 * WIDTH ** len(SIZES[values[x].kind]) for x in others}
    best = None
    for count in range(len(others) + 1):
        for chosen in combinations(others, count):
            if any(needed <= closure({*chosen, *known}, made, y) for y in ({}, followed, every)):
                cost = sum([sizes[x] for x in chosen]) * program.steps
                best = cost if best is None else min(best, cost)
    assert best is not None
    return best


def ends(program: Program, same: dict[str, str]) -> dict[str, str]:
    """Return what steps end with, and what they start with."""
    found: dict[str, str] = {}
    for number, name in enumerate(program.results):
        if same[name] != "xk":
            found.setdefault(same[name], f"c{number}")
    return found


def ancestors(name: str, reads: dict[str, set[str]]) -> set[str]:
    found, waiting = {name}, [name]
    while waiting:
        fresh = reads[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found


def closure(have: set[str], made: dict[str, set[str]], followed: dict[str, str]) -> set[str]:
    """Return all that can be had: what `followed` names follows from its start only."""
    have = set(have)
    while True:
        fresh = {x for x, y in followed.items() if y in have}
        fresh |= {x for x, reads in made.items() if x not in followed and reads <= have}
        if fresh <= have:
            return have
        have |= fresh


@pytest.mark.parametrize("runs", [(False,), (True,), (False, True)])
def test_the_least_bytes_are_stacked(runs: tuple[bool, ...]) -> None:
    for seed in range(150):
        program = drawn(seed, size=5)
        module = module_of(program)
        shared = 0
        if program.shared is not None:
            kind = next(x.kind for x in program.values if x.name == program.shared)
            shared = 4 * WIDTH ** len(SIZES[kind]) * program.steps
        for contractions in runs:
            recompute_loop_residuals(module, contractions=contractions)
        expected = least_bytes(program, contractions=runs[-1]) + shared
        assert stacked_bytes(module, program.steps) == expected, (seed, program.text())
