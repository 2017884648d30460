"""Tilings, and how they are written in HLO and in Shardy's attributes."""

import itertools

import numpy as np
import pytest

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import InputError
from lowtide.ir.mesh import Mesh
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import DeviceGrid, grid_of, prime_factors
from lowtide.ir.tilings.sharding_forms import check_sharding, sharding_of, tiling_of
from lowtide.ir.tilings.shardy import meshes_text, per_value_text, sharding_text
from lowtide.ir.tilings.shardy_reader import read_manual_axes, read_meshes, read_shardings
from lowtide.ir.tilings.tiling import Tiling, dividing


def sharding(text: str, shape: str = "f32[8,8]", count: int = 8) -> Sharding:
    module = parse_hlo(
        f"HloModule m, num_partitions={count}\nENTRY e {{\n"
        f"  ROOT x = {shape} parameter(0), sharding={text}\n}}\n"
    )
    found = module.entry.root.annotations.sharding
    assert found is not None
    return found


GRID = DeviceGrid((2, 2, 2))


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("{replicated}", ((), ())),
        ("{devices=[8,1]<=[8]}", ((0, 1, 2), ())),
        ("{devices=[2,4]<=[8]}", ((0,), (1, 2))),
        ("{devices=[2,4]<=[4,2]T(1,0)}", ((2,), (0, 1))),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", ((0,), ())),
        ("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}", ((), (2,))),
        ("{devices=[2,4]0,1,2,3,4,5,6,7}", ((0,), (1, 2))),
        ("{devices=[2,4]0,2,4,6,1,3,5,7}", ((2,), (0, 1))),
        ("{devices=[2,2,2]<=[8] last_tile_dims={replicated}}", ((0,), (1,))),
    ],
)
def test_tilings_of_shardings(text: str, axes: tuple[tuple[int, ...], ...]) -> None:
    assert tiling_of(sharding(text), GRID, 2) == Tiling(axes)


def test_shardings_come_back_as_they_were() -> None:
    for places in itertools.product(range(3), repeat=3):
        axes = tuple([tuple([a for a, p in enumerate(places) if p == d]) for d in range(2)])
        for turned in (Tiling(axes), Tiling((axes[0][::-1], axes[1]))):
            text = str(sharding_of(turned, GRID))
            assert tiling_of(sharding(text), GRID, 2) == turned
            assert str(sharding(text)) == text


def test_terms_are_unreduced_subgroups() -> None:
    text = "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}"
    assert tiling_of(sharding(text), GRID, 2) == Tiling(((0,), ()), (1, 2))


def test_an_order_off_the_grid_is_no_tiling() -> None:
    assert tiling_of(sharding("{devices=[2,4]0,1,2,3,4,5,7,6}"), GRID, 2) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{devices=[4]<=[4]}", "tiles 1 dimensions, the array has 2"),
        ("{devices=[4,1]<=[4]}", "has 4 tiles, the module 8 devices"),
        ("{maximal device=9}", "devices are 0 to 7"),
    ],
)
def test_shardings_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_sharding(sharding(text), 2, 8, "m.hlo:3: %x")


def test_tiles_cover_the_array_once() -> None:
    grid = grid_of(12)
    tiling = Tiling(((2,), (0, 1)))
    count = np.zeros((6, 8), int)
    for device in range(grid.count):
        row, column = tiling.start(grid, count.shape, device)
        height, width = tiling.local(grid, count.shape)
        count[row : row + height, column : column + width] += 1
    assert (count == 1).all()


def test_uneven_tiles_end_with_the_array() -> None:
    grid = grid_of(4)
    tiling = Tiling(((0, 1),))
    assert tiling.local(grid, (5,)) == (2,)
    assert [tiling.start(grid, (5,), d) for d in range(4)] == [(0,), (2,), (4,), (5,)]
    assert not tiling.divides(grid, (5,))
    assert dividing(grid, tiling, (6,)) == Tiling(((0,),))


def test_groups_differ_along_their_axes() -> None:
    assert GRID.groups((1,)).as_lists() == ((0, 2), (1, 3), (4, 6), (5, 7))
    assert GRID.groups((2, 0)).as_lists() == ((0, 4, 1, 5), (2, 6, 3, 7))
    assert [GRID.position(d, (2, 0)) for d in (0, 4, 1, 5)] == [0, 1, 2, 3]


def test_prime_factors() -> None:
    assert [prime_factors(n) for n in (1, 2, 12, 97)] == [[], [2], [2, 2, 3], [97]]
    assert grid_of(6, [(3, 2), (2, 1)]).sizes == (3, 2)
    assert grid_of(6, [(2, 1), (3, 2)]).sizes == (3, 2)
    assert grid_of(6).sizes == (2, 3)


@pytest.mark.parametrize(
    "text",
    [
        '#sdy.sharding<@mesh, [{}, {"y"}]>',
        '#sdy.sharding<@mesh, [{"x", "y":(1)2, ?}p1, {?}]>',
        '#sdy.sharding<@mesh, [{}], replicated={"y"}>',
        '#sdy.sharding<@mesh, [{}], unreduced={"x", "y"}>',
        '#sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}]>',
        '#sdy.sharding<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}]>',
        "#sdy.sharding<@mesh, []>",
    ],
)
def test_shardy_text_comes_back(text: str) -> None:
    (found,) = read_shardings(text)
    assert sharding_text(found) == text


def test_other_shardy_texts_come_back() -> None:
    text = '#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, <@mesh, [{?}]>]>'
    assert per_value_text(read_shardings(text)) == text
    text = '{mesh = #sdy.mesh<["x"=2, "y"=4]>, empty = #sdy.mesh<[]>}'
    assert meshes_text(read_meshes(text)) == text
    text = "{one = #sdy.mesh<[], device_ids=[3]>}"
    assert read_meshes(text) == {"one": Mesh((), (), None, 3)}
    assert meshes_text(read_meshes(text)) == text
    text = '#sdy<manual_axes{"x", "y"}>'
    assert read_manual_axes(text) == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#sdy.sharding<mesh, [{}]>", "expected '<', found ',' at column 19"),
        ('#sdy.sharding<@mesh, [{"x"}', "expected '{', it ends"),
        ("#sdy.sharding<@mesh, [{x}]>", 'expected an axis name in "quotes"'),
        ("#sdy.sharding<@mesh, [{}]> and", "expected the end, found 'and'"),
    ],
)
def test_bad_shardy_text_says_where(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_shardings(text)
    assert message in str(error.value)
