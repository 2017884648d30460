"""What is kept of operations: propagation does to equal ones of any module what it came to."""

import pytest

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling
from lowtide.spmd import propagation
from lowtide.spmd.annotations import AnnotationReader, ModuleShardings, TilingWish
from lowtide.spmd.cells import ArrayCells, cells_of
from lowtide.spmd.memo import OperationMemo, SplitMemo

GRID = DeviceGrid((2, 2))
LAYERS = """HloModule layers
ENTRY e {
  x = f32[8,4] parameter(0)
  w = f32[4,4] parameter(1)
  v = f32[4,4] parameter(2)
  a = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,4] multiply(a, a)
  c = f32[8,4] dot(b, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[8,4] multiply(c, c)
  r = f32[4,8] transpose(d), dimensions={1,0}
  ROOT s = f32[4,8] multiply(r, r)
}
"""
SQUARES = LAYERS.replace("multiply(c, c)", "multiply(c, a)")
"""The same but for one operation, which reads two values instead of one twice."""

ROWS, COLUMNS, BOTH = ((0,), ()), ((), (1,)), ((0,), (1,))
WHOLE = ((), ())
DIVISIONS = [
    (ROWS, WHOLE, WHOLE),
    (WHOLE, COLUMNS, ((1,), ())),
    (BOTH, COLUMNS, COLUMNS),
    (WHOLE, WHOLE, WHOLE),
]


def propagated(
    text: str,
    division: tuple[tuple[tuple[int, ...], ...], ...],
    memo: OperationMemo,
    *,
    open_: bool,
) -> ArrayCells:
    module = parse_hlo(text)
    shardings = ModuleShardings(AnnotationReader(GRID, {}, False))
    wishes = [TilingWish(Tiling(axes), (open_, open_)) for axes in division]
    shardings.parameters = [[wish] for wish in wishes]
    cells = cells_of(module.entry, shardings, memo=memo)
    propagation.propagate(cells)
    return cells


def seen(cells: ArrayCells) -> list[tuple[Tiling, str]]:
    return [(cell.tiling, cell.why) for cell in cells.cells]


@pytest.mark.parametrize("open_", [False, True])
def test_arrays_lie_as_without_what_is_kept(open_: bool) -> None:
    splits = SplitMemo()
    for text in (LAYERS, SQUARES):
        for division in DIVISIONS * 2:
            kept = propagated(text, division, OperationMemo(splits), open_=open_)
            alone = propagated(text, division, OperationMemo(), open_=open_)
            assert seen(kept) == seen(alone)


def test_equal_operations_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = []
    extended = propagation._extended

    def counting(cells, relation, step):
        worked.append(relation.where)
        return extended(cells, relation, step)

    monkeypatch.setattr(propagation, "_extended", counting)
    splits = SplitMemo()
    propagated(LAYERS, DIVISIONS[2], OperationMemo(splits), open_=True)
    # Layers are alike up to the transpose, in which the last one ends.
    assert worked.count("b") > worked.count("d")
    worked.clear()
    propagated(LAYERS, DIVISIONS[2], OperationMemo(splits), open_=True)
    assert not worked
