"""Steps between tilings: the right ones, at the right price."""

import itertools

import pytest

from lowtide.ir import Opcode
from lowtide.ir.tilings.grid import DeviceGrid, grid_of
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.spmd.emitter import permutation
from lowtide.spmd.resharding import ReshardingKind, WholeArray, bytes_between, resharding_steps

GRID = grid_of(4)
ARRAY = WholeArray((8, 8), 4)
BYTES = 8 * 8 * 4
ROWS = Tiling(((0, 1), ()))
COLUMNS = Tiling(((), (0, 1)))
TURNED = Tiling(((1, 0), ()))
TERMS = Tiling(((), ()), (0, 1))
WHOLE = replicated(2)


def kinds(source: Tiling, target: Tiling) -> list[str]:
    return [step.kind for step in resharding_steps(GRID, ARRAY, source, target)]


@pytest.mark.parametrize(
    ("source", "target", "expected", "nbytes"),
    [
        (ROWS, ROWS, [], 0),
        (WHOLE, ROWS, [ReshardingKind.SLICE], 0),
        (ROWS, WHOLE, [ReshardingKind.ALL_GATHER], BYTES * 3 / 4),
        (ROWS, COLUMNS, [ReshardingKind.ALL_TO_ALL], BYTES / 4 * 3 / 4),
        (ROWS, TURNED, [ReshardingKind.PERMUTE], BYTES / 4),
        (TERMS, WHOLE, [ReshardingKind.ALL_REDUCE], BYTES * 2 * 3 / 4),
        (TERMS, ROWS, [ReshardingKind.REDUCE_SCATTER], BYTES * 3 / 4),
        (WHOLE, TERMS, [ReshardingKind.MASK], 0),
        (ROWS, Tiling(((0,), ())), [ReshardingKind.ALL_GATHER], BYTES / 4),
        (ROWS, Tiling(((0,), (1,))), [ReshardingKind.ALL_TO_ALL], BYTES / 4 / 2),
    ],
)
def test_steps(source: Tiling, target: Tiling, expected: list[str], nbytes: float) -> None:
    assert kinds(source, target) == expected
    assert bytes_between(GRID, ARRAY, source, target) == nbytes


def test_free_axes_are_cut_before_terms_are_reduced() -> None:
    source = Tiling(((), ()), (1,))
    assert kinds(source, Tiling(((0,), ()))) == [ReshardingKind.SLICE, ReshardingKind.ALL_REDUCE]


def test_terms_of_another_kind_are_reduced_first() -> None:
    source = Tiling(((), ()), (0,), Opcode.MAXIMUM)
    target = Tiling(((), ()), (0,))
    assert kinds(source, target) == [ReshardingKind.ALL_REDUCE, ReshardingKind.MASK]


def every_tiling(grid: DeviceGrid) -> list[Tiling]:
    found = []
    for places in itertools.product(range(3), repeat=len(grid.sizes)):
        axes = tuple([tuple([a for a, p in enumerate(places) if p == d]) for d in range(2)])
        found.append(Tiling(axes))
        found.append(Tiling((axes[0][::-1], axes[1])))
    return found


def test_every_tiling_is_reached_from_every_other() -> None:
    grid = grid_of(8)
    for source, target in itertools.product(every_tiling(grid), repeat=2):
        steps = resharding_steps(grid, ARRAY, source, target)
        at = source
        for step in steps:
            assert step.result.divides(grid, ARRAY.sizes)
            at = step.result
        assert at == target
        gathered = bytes_between(grid, ARRAY, source, WHOLE)
        assert bytes_between(grid, ARRAY, source, target) <= gathered


def test_each_device_gets_its_tile_once() -> None:
    grid = grid_of(8)
    before, after = Tiling(((0, 2), ())), Tiling(((1, 0), ()))
    pairs = permutation(grid, ARRAY.sizes, before, after)
    assert sorted(source for source, _ in pairs) == list(range(8))
    assert sorted(target for _, target in pairs) == list(range(8))
    for source, target in pairs:
        place = before.start(grid, ARRAY.sizes, source)
        assert place == after.start(grid, ARRAY.sizes, target)
