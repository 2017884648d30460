"""The shardings that modules ask for: what is read, and what is refused."""

import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import InputError
from lowtide.spmd.partitioner import partition

SHARDY = """HloModule m, num_partitions=8,
    frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}

ENTRY e {
  x = f32[8,16] parameter(0), sharding={replicated},
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"data\\"}, {}]>"}
  w = f32[16,16] parameter(1),
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"model\\"}]>"}
  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,16] custom-call(d), custom_call_target="xla.sdy.FuncResultSharding",
    custom_call_has_side_effect=true,
    frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"model\\"}]>]>"}
}
"""


def test_shardy_counts_and_not_the_other_notation() -> None:
    parts = partitioned_text(SHARDY)
    rows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
    columns = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    assert [str(x) for x in parts.parameters] == [rows, columns]
    assert [str(x) for x in parts.results] == [columns]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{}, {\\\\"model\\\\"}', '{}, {\\\\"mode\\\\"}', "no axis 'mode'; did you mean 'model'?"),
        ("@mesh, [{}, ", "@mash, [{}, ", "no mesh @mash; the module has @mesh"),
        ('"model"=4]', '"model"=2]', "mesh @mesh has 4 devices, the module 8"),
        ('[{\\\\"data\\\\"}, {}]', '[{\\\\"data\\\\"}]', "splits 1 dimensions, the array has 2"),
        ('{\\\\"data\\\\"}, {}', '{\\\\"data\\\\"}, {\\\\"data\\\\"}', "uses an axis twice"),
    ],
)
def test_bad_shardy(old: str, new: str, message: str) -> None:
    old, new = old.replace("\\\\", "\\"), new.replace("\\\\", "\\")
    assert old in SHARDY
    with pytest.raises(InputError) as error:
        partition(parse_hlo(SHARDY.replace(old, new)))
    assert message in str(error.value)


PLAIN = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,16] parameter(0), sharding=SHARDING
  ROOT r = f32[8,16] negate(x)
}
"""


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ("{devices=[8,1]<=[8]}", "has 8 tiles, the module 4 devices"),
        ("{devices=[4]<=[4]}", "tiles 1 dimensions, the array has 2"),
    ],
)
def test_bad_shardings(sharding: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        partition(parse_hlo(PLAIN.replace("SHARDING", sharding)))
    assert message in str(error.value) and "%x" in str(error.value)


def test_a_result_that_nobody_asked_for_is_replicated() -> None:
    parts = partitioned_text(PLAIN.replace("SHARDING", "{devices=[4,1]<=[4]}"))
    assert [str(x) for x in parts.results] == ["{replicated}"]


def test_what_does_not_divide_is_split_as_far_as_it_does() -> None:
    parts = partitioned_text(PLAIN.replace("SHARDING", "{devices=[4,1]<=[4]}").replace("8,", "6,"))
    assert [str(x) for x in parts.parameters] == ["{devices=[2,1,2]<=[4] last_tile_dim_replicate}"]
