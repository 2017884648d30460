"""Arrays of which devices are asked to hold terms of a sum (`unreduced`)."""

import numpy as np
import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir.sharding import Sharding
from lowtide.ir.tilings.grid import grid_of
from lowtide.ir.tilings.sharding_forms import sharding_of, tiling_of
from lowtide.ir.tilings.tiling import Tiling
from lowtide.spmd.shards import cut, joined

GRID = grid_of(8)


@pytest.mark.parametrize(
    "tiling",
    [
        Tiling(((), ()), (0, 1, 2)),
        Tiling(((), ()), (1,)),
        Tiling(((0,), ()), (2,)),
        Tiling(((0,), (1,)), (2,)),
    ],
    ids=str,
)
def test_terms_in_the_form_of_hlo(tiling: Tiling) -> None:
    sharding: Sharding = sharding_of(tiling, GRID)
    assert tiling_of(sharding, GRID, 2) == tiling
    text = f"""HloModule m, num_partitions=8
ENTRY e {{
  ROOT x = f32[4,4] parameter(0), sharding={sharding}
}}
"""
    read = parse_hlo(text).entry.root.annotations.sharding
    assert read is not None
    assert tiling_of(read, GRID, 2) == tiling


def test_terms_are_cut_and_summed() -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    sharding = sharding_of(Tiling(((0,), ()), (2,)), GRID)
    tiles = cut(array, sharding, GRID)
    assert [bool(tile.any()) for tile in tiles] == [True, False] * 4
    np.testing.assert_array_equal(joined(tiles, sharding, GRID, (4, 4)), array)
    np.testing.assert_array_equal(
        joined([np.ones((2, 4), np.float32)] * 8, sharding, GRID, (4, 4)), np.full((4, 4), 2.0)
    )


SHARDY = """HloModule m, num_partitions=4,
    frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=2]>}}
ENTRY e {
  a = f32[4,8] parameter(0),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"x\\"}]>"}
  b = f32[8,4] parameter(1),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}], unreduced={\\"y\\"}>"}
  d = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[4,4] custom-call(d), custom_call_target="xla.sdy.FuncResultSharding",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding=
    "#sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={\\"x\\"}>]>"}
}
""".replace("sharding=\n    ", "sharding=")


def test_parameters_and_results_are_terms() -> None:
    parts = partitioned_text(SHARDY)
    assert (
        str(parts.parameters[1])
        == "{devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dims={unreduced, replicated}}"
    )
    assert (
        str(parts.results[0]) == "{devices=[1,1,2,2]<=[4] last_tile_dims={unreduced, replicated}}"
    )


def test_marks_in_reducers_mean_nothing() -> None:
    parts = partitioned_text("""HloModule m, num_partitions=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] add(a, b)
  ROOT d = f32[] custom-call(c), custom_call_target="Sharding", sharding={replicated}
}
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  z = f32[] constant(0)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add
}
""")
    text = str(parts.module)
    assert "all-reduce" in text
    assert "Sharding" not in text
