"""The tile of registers that a product gets, by what its target holds and by where panels lie."""

import pytest

from lowtide.codegen.cpu.contraction.tiles import PanelCost, best_tiles

VECTOR_BYTES = 32
LANES = VECTOR_BYTES // 4
REGISTERS = 16


def fits(rows: int, vectors: int) -> bool:
    return rows * vectors + vectors + 1 <= REGISTERS


def panel(steps: int, *, is_packed: bool = True) -> PanelCost:
    return PanelCost(steps, VECTOR_BYTES, 24 << 10, is_packed)


@pytest.mark.parametrize("size", [128, 256, 512, 768, 1024])
@pytest.mark.parametrize("is_packed", [True, False])
def test_narrow_vectors_take_no_tile_that_loads_more_than_it_multiplies(
    size: int, is_packed: bool
) -> None:
    best = best_tiles(size, size, LANES, 1, 13, panel(size, is_packed=is_packed), fits)[0]
    assert best.rows + best.vectors < best.rows * best.vectors
    assert best.rows * best.vectors >= REGISTERS - 4


def test_few_rows_take_wider_panels_where_these_have_to_be_packed() -> None:
    tiles = {
        x: best_tiles(32, 1024, LANES, 1, 13, panel(768, is_packed=x), fits)[0]
        for x in (True, False)
    }
    assert tiles[True].vectors >= tiles[False].vectors
    assert tiles[True].vectors >= 3


def test_a_panel_is_near_by_its_bytes() -> None:
    assert panel(256).is_near(3)
    assert not panel(257).is_near(3)
    assert panel(768).is_near(1)
