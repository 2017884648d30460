"""The interface of the program of one device: layouts, donated parameters, replicas."""

import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import InputError
from lowtide.spmd.partitioner import partition

LAID = """HloModule m, num_partitions=2, input_output_alias={ {0}: (0, {}, may-alias) },
    entry_computation_layout={(f32[4,8]{0,1:S(5)}, f32[8]{0})->(f32[4,8]{0,1:S(5)}, f32[8]{0})}
ENTRY e {
  x = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[8] parameter(1), sharding={devices=[2]<=[2]}
  n = f32[4,8] negate(x)
  m = f32[8] negate(y)
  ROOT t = (f32[4,8], f32[8]) tuple(n, m), sharding={{devices=[2,1]<=[2]}, {replicated}}
}
"""


def test_layouts_and_memory_spaces_are_kept() -> None:
    layout = partitioned_text(LAID).module.entry_layout
    assert layout is not None
    assert str(layout.parameters[0]) == "f32[2,8]{0,1:S(5)}"
    assert str(layout.result) == "(f32[2,8]{0,1:S(5)}, f32[8]{0})"


def test_aliases_stay_where_tiles_agree() -> None:
    kept = partitioned_text(LAID).module
    assert [alias.parameter for alias in kept.input_output_aliases] == [0]
    text = LAID.replace("{{devices=[2,1]<=[2]}, {replicated}}", "{{replicated}, {replicated}}")
    given_away = partitioned_text(text).module
    assert not given_away.input_output_aliases
    assert [donor.parameter for donor in given_away.buffer_donors] == [0]


def test_replicas_of_partitions_are_refused() -> None:
    text = LAID.replace("num_partitions=2", "replica_count=2, num_partitions=2")
    with pytest.raises(InputError, match="2 replicas of 2 partitions: state one of the two"):
        partition(parse_hlo(text))


REPLICAS = """HloModule m, replica_count=4
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[8] parameter(0)
  r = f32[8] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
  i = u32[] replica-id()
  f = f32[] convert(i)
  b = f32[8] broadcast(f), dimensions={}
  ROOT s = f32[8] add(r, b)
}
"""


def test_replicas_stay_as_they_are_written() -> None:
    made = partition(parse_hlo(REPLICAS)).module
    assert made.replica_count == 4
    text = str(made)
    assert "replica_groups={{0,1},{2,3}}" in text
    assert "replica-id()" in text


BITS = """HloModule m, num_partitions=4
ENTRY e {
  x = u32[4,2] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = u8[4,2,4] bitcast-convert(x), sharding={devices=[1,1,4]<=[4]}
}
"""


def test_bytes_of_an_element_stay_together() -> None:
    partitioned_text(BITS)
    partitioned_text(
        """HloModule m, num_partitions=4
ENTRY e {
  x = u8[4,2,4] parameter(0), sharding={devices=[1,1,4]<=[4]}
  ROOT y = u32[4,2] bitcast-convert(x), sharding={devices=[4,1]<=[4]}
}
"""
    )


def test_an_empty_tuple_may_have_a_sharding() -> None:
    partitioned_text(
        """HloModule m, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  t = () tuple(), sharding={{replicated}}
  ROOT n = f32[4] negate(x)
}
"""
    )
