"""Asynchronous calls and copies in two halves, of which devices are to have their parts."""

import pytest
from tests.spmd.equal_results import partitioned_text

from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.ir import Opcode, UnsupportedOpError
from lowtide.spmd.partitioner import partition

HALVES = """HloModule m, num_partitions=2
double {
  p = f32[4]{0} parameter(0)
  ROOT s = f32[4]{0} add(p, p)
}
ENTRY e {
  x = f32[4]{0} parameter(0), sharding={devices=[2]<=[2]}
  start = ((f32[4]{0}), f32[4]{0}, s32[]) call-start(x), to_apply=double
  update = ((f32[4]{0}), f32[4]{0}, s32[]) call-update(start)
  y = f32[4]{0} negate(x)
  done = f32[4]{0} call-done(update)
  first = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(y)
  second = f32[4]{0} copy-done(first)
  ROOT z = f32[4]{0} subtract(done, second)
}
"""


def test_what_runs_asynchronously_is_split_where_it_starts() -> None:
    parts = partitioned_text(HALVES)
    opcodes = {x.opcode for x in parts.module.entry.instructions.values()}
    assert not opcodes & {Opcode.ASYNC_START, Opcode.COPY_START}
    assert parts.module.entry.parameters[0].shape.dimensions == (2,)


def test_what_is_read_before_it_is_done_is_refused() -> None:
    text = HALVES.replace(
        "ROOT z = f32[4]{0} subtract(done, second)",
        "t = (f32[4]{0}) get-tuple-element(start), index=0\n"
        "  u = f32[4]{0} get-tuple-element(t), index=0\n"
        "  ROOT z = f32[4]{0} subtract(done, u)",
    )
    with pytest.raises(UnsupportedOpError, match="t reads start before it is done"):
        partition(parse_hlo(text))
