"""Modules for several devices: planned, run on all, refused where one would compute otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.comparing import compiled, flat

import lowtide
from lowtide.ir import InputError, UnsupportedOpError
from lowtide.ir.partitioning import is_whole


def sharded(sharding: str, header: str = "num_partitions=4") -> str:
    return (
        f"HloModule m, {header}\nENTRY e {{\n"
        f"  p = f32[8]{{0}} parameter(0), sharding={sharding}\n"
        "  ROOT n = f32[8]{0} negate(p)\n}\n"
    )


SPLIT = [
    "{devices=[4]<=[4]}",
    "{devices=[2,2]<=[4] last_tile_dim_replicate}",
    "{maximal device=1}",
    "{manual}",
    "{mesh['x'=4], [{'x'}]}",
    "{maximal_mesh[device_id=3]}",
]
WHOLE = [
    "{replicated}",
    "{maximal device=0}",
    "{devices=[1,4]<=[4] last_tile_dim_replicate}",
    "{mesh['x'=4], [{}]}",
    "{maximal_mesh[device_id=0]}",
]
DEVICES = """HloModule m, HEADER
ENTRY e {
  p = u32[] parameter(0)
  i = u32[] OPCODE()
  ROOT n = u32[] add(p, i)
}
"""
X = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("sharding", SPLIT)
def test_what_waits_to_be_partitioned_is_refused_in_one_line(sharding: str) -> None:
    text = sharded(sharding)
    for run in (compiled, lambda given: lowtide.evaluate(lowtide.parse_hlo(given), [X])):
        with pytest.raises(UnsupportedOpError, match=r"4 partitions and not partitioned") as raised:
            run(text)
        assert "%p has sharding={" in str(raised.value)
        assert "num_partitions=1" in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("sharding", WHOLE)
def test_whole_arrays_run(sharding: str) -> None:
    (found,) = flat(compiled(sharded(sharding))(X))
    np.testing.assert_array_equal(found, -X)


@pytest.mark.parametrize("sharding", SPLIT)
def test_for_one_partition_shardings_mean_nothing(sharding: str) -> None:
    (found,) = flat(compiled(sharded(sharding, "replica_count=1"))(X))
    np.testing.assert_array_equal(found, -X)


def test_a_tuple_is_whole_if_all_of_it_is() -> None:
    call = 'custom-call(), custom_call_target="f", sharding={'
    for inner, whole in (("{replicated}, {replicated}", True), ("{replicated}, {manual}", False)):
        module = lowtide.parse_hlo(f"ENTRY e {{ ROOT c = (f32[8], f32[8]) {call}{inner}}} }}")
        sharding = module.entry.root.annotations.sharding
        assert sharding is not None
        assert is_whole(sharding) is whole


@pytest.mark.parametrize(
    ("header", "opcode"), [("num_partitions=2", "partition-id"), ("replica_count=2", "replica-id")]
)
def test_the_program_of_several_devices_runs_on_all_and_not_on_one(
    header: str, opcode: str
) -> None:
    text = DEVICES.replace("HEADER", header).replace("OPCODE", opcode)
    executable = lowtide.compile(lowtide.parse_hlo(text))
    with pytest.raises(InputError, match="runs on 2 devices, which meet in %i"):
        executable(np.uint32(1))
    found = lowtide.run_on_devices(executable, [[np.uint32(1)]] * 2)
    assert [int(x) for x in found] == [1, 2]
    with pytest.raises(UnsupportedOpError, match=f"{opcode}.*each of 2"):
        lowtide.evaluate(lowtide.parse_hlo(text), [np.uint32(1)])
    alone = text.replace(header, "replica_count=1")
    (found,) = flat(compiled(alone)(np.uint32(1)))
    assert found == 1


def test_both_kinds_can_be_explained_with_a_caveat() -> None:
    module = lowtide.parse_hlo(sharded("{devices=[4]<=[4]}"))
    whole = lowtide.explain(module, whole=True)
    assert any("not partitioned yet" in x for x in whole.caveats)
    assert not any("not partitioned yet" in x for x in lowtide.explain(module).caveats)
    text = DEVICES.replace("HEADER", "num_partitions=2").replace("OPCODE", "partition-id")
    each = lowtide.explain(lowtide.parse_hlo(text))
    assert any("figures of each of 2 devices" in x for x in each.caveats)
