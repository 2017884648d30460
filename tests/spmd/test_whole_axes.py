"""What callers are told of arrays whose sharding they left open can be said by names of axes."""

import pytest

from lowtide.ir.mesh import Mesh
from lowtide.ir.tilings.grid import DeviceGrid
from lowtide.ir.tilings.tiling import Tiling, replicated
from lowtide.spmd.whole_axes import named_axes, on_whole_axes

GRID = DeviceGrid((2, 2, 2))
FOUR_TWO = Mesh(("x", "y"), (4, 2))
TWO_FOUR = Mesh(("a", "b"), (2, 4))


@pytest.mark.parametrize(
    ("axes", "kept"),
    [
        (((0, 1), (2,)), ((0, 1), (2,))),
        (((0,), (2,)), ((), (2,))),
        (((2, 0, 1), ()), ((2, 0, 1), ())),
        (((0, 1, 2), ()), ((0, 1, 2), ())),
        (((0, 2), (1,)), ((), ())),
        (((2, 0), (1,)), ((2,), ())),
        (((1,), (2,)), ((), (2,))),
    ],
)
def test_dimensions_keep_the_axes_that_a_mesh_names(
    axes: tuple[tuple[int, ...], ...], kept: tuple[tuple[int, ...], ...]
) -> None:
    assert on_whole_axes(Tiling(axes), named_axes([FOUR_TWO], GRID)) == Tiling(kept)


def test_of_several_meshes_each_has_to_name_them() -> None:
    meshes = named_axes([FOUR_TWO, TWO_FOUR], GRID)
    assert on_whole_axes(Tiling(((0, 1),)), meshes) == Tiling(((),))
    assert on_whole_axes(Tiling(((0, 1, 2),)), meshes) == Tiling(((0, 1, 2),))
    same = named_axes([FOUR_TWO, Mesh(("p", "q"), (4, 2), (0, 2, 1, 3, 4, 6, 5, 7))], GRID)
    assert on_whole_axes(Tiling(((0, 1), (2,))), same) == Tiling(((0, 1), (2,)))


def test_a_mesh_off_the_grid_names_nothing_and_no_mesh_forbids_nothing() -> None:
    grid = DeviceGrid((2, 3))
    tiling = Tiling(((0,), (1,)))
    assert on_whole_axes(tiling, named_axes([Mesh(("x", "y"), (3, 2))], grid)) == replicated(2)
    assert on_whole_axes(tiling, ()) == tiling
    assert named_axes([Mesh(("x",), (1,))], grid) == ()
