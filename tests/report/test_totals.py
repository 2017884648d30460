"""The sums of a report: what is counted once, whatever overwrites what."""

import pytest

from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.report.peak import PeakBuffer, PeakGroup

TEXT = """HloModule m@
ENTRY main {
  p = f32[100] parameter(0)
  k = f32[100] constant({...})
  s = f32[100] add(p, k)
  w = f32[400] concatenate(s, s, s, s), dimensions={0}
  ROOT r = f32[100] slice(w), slice={[300:400]}
}
"""


@pytest.mark.parametrize("is_aliased", [False, True])
def test_an_output_over_an_argument_counts_once(is_aliased) -> None:
    header = ", input_output_alias={ {}: (0, {}, may-alias) }" if is_aliased else ""
    report = explain(parse_hlo(TEXT.replace("@", header)), PlanOptions("input"))
    alias = 400 if is_aliased else 0
    counted = (report.argument_bytes, report.output_bytes, report.alias_bytes)
    assert counted == (400, 400, alias)
    assert report.constant_bytes == 400
    assert report.total_bytes == 400 + 400 - alias + 400 + report.temp_bytes


def test_a_group_of_the_peak_spans_all_its_buffers() -> None:
    stretches = [(2, 3), (1, 9), (4, 5)]
    buffers = [PeakBuffer("b", 4, "i", "add", "f32[]", "temporary", "", None, x) for x in stretches]
    assert PeakGroup(None, 12, tuple(buffers)).live == (1, 9)
