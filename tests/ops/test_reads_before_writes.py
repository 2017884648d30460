"""Where results may lie over what a fusion reads, held against what its results depend on.

Each element of a parameter is changed in turn; the results that change depend on it. A kernel that
stores element i while others are still to come must not need element i for those.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from tests.ops.fused_bodies import FusedBody

from lowtide.checking.overwriting import may_overwrite
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ops.in_place import in_place_pairs
from lowtide.ops.may_share import may_share, sharing_pairs

ROWS, ONE_PASS, LOOPS = (f'{{"kernel":"{x}"}}' for x in ("rows", "one_pass", "loops"))


class Dependence:
    """Which elements of results depend on which elements of a parameter, for some arguments."""

    def __init__(self, module: Module, operand: int) -> None:
        shapes = [x.shape.dimensions for x in module.entry.parameters]
        draw = np.random.default_rng(1)
        self.needs: list[set[tuple[int, int]]] = []
        """Per result the pairs (its element, the parameter's element), in row-major order."""
        for starts in ((0, 0), (0, 1), (1, 0), (1, 2)):
            arrays = [draw.integers(-900, 900, size).astype(np.int32) for size in shapes[:2]]
            arguments = [*arrays, *[np.int32(x) for x in starts]]
            before = self._run(module, arguments)
            if not self.needs:
                self.needs = [set() for _ in before]
            for j in range(prod(shapes[operand])):
                changed = list(arguments)
                changed[operand] = arrays[operand].copy()
                changed[operand].reshape(-1)[j] += 7777
                for found, old, new in zip(
                    self.needs, before, self._run(module, changed), strict=True
                ):
                    found.update((int(i), j) for i in np.flatnonzero(old != new))

    def _run(self, module: Module, arguments: list[np.ndarray]) -> list[np.ndarray]:
        result = value_leaves(evaluate(module, arguments))
        return [np.asarray(x).reshape(-1) for x in result]

    def is_own(self, result: int) -> bool:
        """Whether each element of a result needs no other element than its own."""
        return all(i == j for i, j in self.needs[result])


def may_lie_over(module: Module, operand: int, output: int) -> bool:
    """Whether a result may lie over a parameter, by what the results depend on.

    Operations that update something are not asked for here.
    """
    fusion = module.entry.root
    found = Dependence(module, operand)
    sizes = [shape.element_count for _, shape in fusion.shape.leaves()]
    config = fusion.annotations.backend_config
    if config == LOOPS:
        others = [x for i, x in enumerate(found.needs) if i != output]
        return found.is_own(output) and not any(others)
    count = fusion.operands[operand].shape.element_count
    if config == ONE_PASS:
        return all(found.is_own(i) for i, size in enumerate(sizes) if size == count)
    if all(found.is_own(i) for i in range(len(sizes))):
        return True
    return config == ROWS and _is_by_rows(fusion, found, count, sizes)


def _is_by_rows(fusion: Instruction, found: Dependence, count: int, sizes: list[int]) -> bool:
    """Whether results can be cut into the rows of a reduction, each of which needs one row."""
    body = fusion.called_computations[0].instructions.values()
    for rows in {x.shape.element_count for x in body if x.opcode is Opcode.REDUCE}:
        if count % rows or any(size % rows for size in sizes):
            continue
        cuts = [(size // rows, count // rows) for size in sizes]
        pairs = zip(cuts, found.needs, strict=True)
        if all(i // a == j // b for (a, b), needs in pairs for i, j in needs):
            return True
    return False


def updates(module: Module) -> list[Instruction]:
    body = module.entry.root.called_computations[0]
    return [x for x in body.instructions.values() if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE]


def pairs_of(module: Module) -> list[tuple[int, int]]:
    """The pairs (operand, result) that may share, of the first two operands, which are arrays."""
    found = may_share(module.entry.root)
    return [(a, x[0] if x else 0) for (a, _), x in found if a < 2]


@pytest.mark.parametrize("part", range(4))
def test_results_over_what_is_read(part) -> None:
    tried = 0
    for seed in range(part, 1200, 4):
        text = FusedBody(seed).text()
        module = parse_hlo(text)
        if updates(module):
            continue
        for operand, output in pairs_of(module):
            tried += 1
            assert may_lie_over(module, operand, output), text
    assert tried > 50


@pytest.mark.parametrize("part", range(4))
def test_updates_over_what_is_read(part) -> None:
    """An updated array needs only its own elements, and no other result needs any of it.

    Unless that is the updated array again.
    """
    tried = 0
    for seed in range(part, 1200, 4):
        text = FusedBody(seed).text()
        module = parse_hlo(text)
        fusion = module.entry.root
        if not updates(module) or fusion.annotations.backend_config:
            continue
        must = in_place_pairs(fusion)
        for (operand, _), output in must:
            found = Dependence(module, operand)
            number = output[0] if output else 0
            made = fusion.called_computations[0].root.operands if output else ()
            others = [
                x for i, x in enumerate(found.needs) if output and made[i] is not made[number]
            ]
            tried += 1
            assert found.is_own(number) and not any(others), text
    assert tried > 50


@pytest.mark.parametrize("returned", ["u32", "f32"])
def test_results_of_another_type_over_what_is_read(returned) -> None:
    """They may lie where those of the same type might."""
    tried = 0
    for seed in range(600):
        module = parse_hlo(FusedBody(seed).text())
        if updates(module):
            continue
        text = FusedBody(seed, returned).text()
        fusion = parse_hlo(text).entry.root
        found = [x for x in sharing_pairs(fusion) if x[0][0] < 2]
        tried += len(found)
        assert not may_share(fusion), text
        assert found == [x for x in may_share(module.entry.root) if x[0][0] < 2], text
        for (operand, index), output in found:
            assert may_overwrite(fusion, operand, index, output), text
    assert tried > 50


def test_the_checker_of_plans_says_so_too() -> None:
    """What it allows is what may be, by its own rules."""
    allowed = 0
    for seed in range(600):
        text = FusedBody(seed).text()
        module = parse_hlo(text)
        fusion = module.entry.root
        if updates(module):
            continue
        for operand in (0, 1):
            for number, (index, shape) in enumerate(fusion.shape.leaves()):
                if shape is not fusion.operands[operand].shape:
                    continue
                if may_overwrite(fusion, operand, (), index):
                    allowed += 1
                    assert may_lie_over(module, operand, number), text
    assert allowed > 100
