"""Each donation that a module asks for is honoured, or the report says why not."""

import pytest

from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir.module import InputOutputAlias

MODULE = """HloModule m, HEADER
ENTRY main {
  p = (f32[1000], f32[1000]) parameter(0), metadata={op_name="state"}
  q = f32[250]{0:S(1)} parameter(1), metadata={op_name="fast"}
  a = f32[1000] get-tuple-element(p), index=0
  b = f32[1000] get-tuple-element(p), index=1
  n = f32[1000] add(a, b)
  s = f32[250] slice(b), slice={[0:250]}
  ROOT r = (f32[1000], f32[250], f32[1000]) tuple(n, s, b)
}
"""
IN_PLACE, COPIED, NONE = "in place", "copied", "no effect"


def outcomes(header, text=MODULE):
    report = explain(parse_hlo(text.replace("HEADER", header)), PlanOptions("input"))
    return report, report.to_json()["donations_asked"]


@pytest.mark.parametrize(
    ("header", "verdict", "reason"),
    [
        ("input_output_alias={ {0}: (0, {0}) }", IN_PLACE, ""),
        ("input_output_alias={ {2}: (0, {1}) }", IN_PLACE, ""),
        (
            "input_output_alias={ {0}: (0, {0}), {2}: (0, {0}) }",
            NONE,
            "output {0} overwrites the argument",
        ),
        (
            "input_output_alias={ {1}: (0, {0}) }",
            NONE,
            "the argument has 4,000 bytes, the output 1,000",
        ),
        (
            "input_output_alias={ {1}: (1, {}) }",
            NONE,
            "the argument is in memory space 1, the output in 0",
        ),
        (
            "input_output_alias={ {0}: (0, {}) }",
            NONE,
            "the argument is a tuple; only its elements can be overwritten",
        ),
        (
            "input_output_alias={ {}: (0, {0}) }",
            NONE,
            "the output is a tuple; only its elements can overwrite arguments",
        ),
        ("buffer_donor={ (0, {0}) }", IN_PLACE, ""),
        ("buffer_donor={ (1, {}) }", NONE, "no output of 1,000 bytes in its memory space is left"),
        (
            "input_output_alias={ {0}: (0, {0}) }, buffer_donor={ (0, {0}) }",
            NONE,
            "output {0} overwrites the argument",
        ),
    ],
)
def test_the_last_one_asked_for(header, verdict, reason):
    report, found = outcomes(header)
    assert (found[-1]["verdict"], found[-1]["reason"]) == (verdict, reason)
    assert report.alias_bytes == 4000 * sum(x["verdict"] != NONE for x in found)
    assert ("has no effect" in str(report)) == (verdict == NONE)
    assert verdict != NONE or reason in str(report)


def test_an_output_of_another_type_is_named_with_its_line():
    text = """HloModule m, buffer_donor={ (0, {}) }
ENTRY main {
  p = f32[1000] parameter(0), metadata={op_name="state"}
  ROOT half = bf16[1000] convert(p), metadata={op_name="half" source_file="m.py" source_line=7}
}
"""
    report = explain(parse_hlo(text), PlanOptions("input"))
    (found,) = report.to_json()["donations_asked"]
    assert found["verdict"] == NONE
    assert found["reason"].endswith(
        "; output {} has its dimensions, but is bf16[1000], made at m.py:7"
    )
    other = explain(parse_hlo(text.replace("bf16[1000]", "f32[1000]")), PlanOptions("input"))
    assert "has its dimensions" not in str(other)


def test_an_output_that_is_another_argument_is_copied_into_place():
    report, (found,) = outcomes("input_output_alias={ {2}: (0, {0}) }")
    assert found["verdict"] == COPIED
    assert (found["name"], found["output"], found["bytes"]) == ("state", [2], 4000)
    assert found["reason"].startswith("output {2} is copied at the end, because ")
    assert "state is overwritten by a copy: output {2} is copied" in str(report)
    assert report.alias_bytes == 4000


def test_results_that_want_each_others_arguments():
    """The second result needs what the first one overwrites: one of them is copied at the end."""
    text = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
ENTRY main {
  a = f32[1000] parameter(0)
  b = f32[1000] parameter(1)
  x = f32[1000] reverse(b), dimensions={0}
  y = f32[1000] reverse(a), dimensions={0}
  ROOT r = (f32[1000], f32[1000]) tuple(x, y)
}
"""
    report, found = outcomes("", text)
    assert sorted(x["verdict"] for x in found) == [COPIED, IN_PLACE]
    (copied,) = [x for x in found if x["verdict"] == COPIED]
    assert "is still needed by" in copied["reason"]
    assert "copies" in report.to_json()


def test_offers_to_any_output_are_named_with_the_one_they_got():
    _, found = outcomes("buffer_donor={ (0, {0}), (1, {}) }")
    assert [x["output"] for x in found] == [[0], None]
    assert [(x["parameter"], x["index"]) for x in found] == [(0, [0]), (1, [])]


def test_of_two_arguments_for_one_output_the_first_is_overwritten():
    module = parse_hlo(MODULE.replace("HEADER", "is_scheduled=false"))
    module.input_output_aliases = (InputOutputAlias((0,), 0, (0,)), InputOutputAlias((0,), 0, (1,)))
    found = explain(module, PlanOptions("input")).to_json()["donations_asked"]
    assert [x["verdict"] for x in found] == [IN_PLACE, NONE]
    assert found[1]["reason"] == "the output overwrites argument p already"
