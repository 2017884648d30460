"""What an instruction needs while it runs counts in its own step, and in no other one."""

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.live_range import live_ranges
from lowtide.frontend.hlo_text import parse_hlo

TEXT = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] exponential(x)
  b = f32[4] reverse(a), dimensions={0}
  ROOT c = f32[4] reverse(b), dimensions={0}
}
"""


def test_scratch_is_live_in_its_step() -> None:
    module = parse_hlo(TEXT)
    assert module.schedule is not None
    flows, sequences = dataflow(module.entry), module.schedule.sequences
    plain = live_ranges(module.entry, sequences, flows, ())
    needs = {"a": 100, "c": 7}
    found = live_ranges(
        module.entry, sequences, flows, (), scratch_bytes=lambda x: needs.get(x.name, 0)
    )
    names = [x.name for x in sequences[module.entry]]
    more = (found.profile - plain.profile).tolist()
    assert more == [needs.get(name, 0) for name in names]
    assert [names[x] for x in found.scratch] == ["a", "c"]
    assert [int(found.nbytes[x]) for x in found.scratch.values()] == [100, 7]
