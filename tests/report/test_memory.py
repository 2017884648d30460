"""The report adds up, says where buffers come from, and keeps to the schema."""

import json

import pytest
from tests.analysis.random_modules import RandomModule
from tests.support import CORPUS, needs_shared, read_text

from lowtide.compiler import PlanOptions, explain
from lowtide.compiler.stages import STAGES
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError
from lowtide.report.caveats import time_caveats
from lowtide.report.grouping import groups_of

STEP = """HloModule step
ENTRY main {
  w = f32[1000] parameter(0), metadata={op_name="params['w']"}
  x = f32[1000] parameter(1), metadata={op_name="x"}
  c = f32[250] constant({...})
  g = f32[1000] multiply(w, x), metadata={op_name="jit(step)/mul" source_file="a.py" source_line=7}
  h = f32[1000] reverse(g), dimensions={0}
  n = f32[1000] subtract(w, h), metadata={op_name="jit(step)/sub" source_file="a.py" source_line=9}
  ROOT r = (f32[1000], f32[1000]) tuple(n, g)
}
"""


def test_a_report_by_hand():
    report = explain(parse_hlo(STEP), PlanOptions("input"))
    found = report.to_json()
    assert found["argument_bytes"] == 8000
    assert found["output_bytes"] == 8000
    assert found["alias_bytes"] == 0
    assert found["constant_bytes"] == 1000
    assert found["total_bytes"] == 8000 + 8000 + 1000 + found["temp_bytes"]
    assert found["ladder"] == {
        "bound_bytes": 8000,
        "live_bytes": 8000,
        "arena_bytes": 8000,
        "optimal": True,
    }
    buffers = {x["name"]: x for x in found["peak"]["buffers"]}
    assert set(buffers) == {"g", "h"}
    assert buffers["g"]["source"] == {"file": "a.py", "line": 7, "function": ""}
    assert buffers["g"]["op_name"] == "jit(step)/mul"
    assert buffers["h"]["source"]["line"] == 9


def test_donations_name_the_arguments():
    report = explain(parse_hlo(STEP), PlanOptions("input"))
    assert [(x.parameter, x.name, x.nbytes) for x in report.donations] == [
        (0, "params['w']", 4000),
        (1, "x", 4000),
    ]
    donated = STEP.replace("step\n", "step, input_output_alias={ {0}: (0, {}, may-alias) }\n", 1)
    report = explain(parse_hlo(donated), PlanOptions("input"))
    assert report.alias_bytes == 4000
    assert [x.parameter for x in report.donations] == [1]


def test_a_donor_without_output_takes_one_of_its_size():
    donated = STEP.replace("step\n", "step, buffer_donor={ (1, {}) }\n", 1)
    report = explain(parse_hlo(donated), PlanOptions("input"))
    assert report.alias_bytes == 4000
    assert [x.parameter for x in report.donations] == [0]


KEYS = {
    "schema", "module", "instructions", "argument_bytes", "output_bytes", "alias_bytes",
    "constant_bytes", "largest_constant", "temp_bytes", "scratch_bytes", "total_bytes", "ladder",
    "peak", "computations", "causes", "copies", "loops", "donations_asked", "seconds", "caveats",
}  # fmt: skip


def check(report):
    """What holds for every module."""
    found = json.loads(json.dumps(report.to_json()))
    assert sum([x.nbytes for x in report.causes]) == report.total_bytes
    assert set(found) == KEYS
    assert found["schema"] == "lowtide.memory/1"
    for ladder in [found["ladder"], *[x["ladder"] for x in found["computations"]]]:
        assert 0 <= ladder["bound_bytes"] <= ladder["live_bytes"] <= ladder["arena_bytes"]
    peak = found["peak"]
    total = sum([x["bytes"] for x in peak["buffers"]])
    assert total == found["ladder"]["live_bytes"] + found["alias_bytes"]
    names = [x["name"] for x in peak["buffers"]]
    assert len(set(names)) == len(names)
    for buffer in peak["buffers"]:
        first, last = buffer["live"]
        assert 0 <= first <= peak["position"] <= last < report.steps
    groups = groups_of(report.peak.buffers)
    assert sum([group.nbytes for group in groups]) == total
    assert [group.nbytes for group in groups] == sorted([x.nbytes for x in groups], reverse=True)


@pytest.mark.parametrize("seed", range(100, 140))
def test_every_report_adds_up(seed):
    text = RandomModule(seed, 4 + seed % 12).text()
    report = explain(parse_hlo(text), PlanOptions("input"))
    check(report)
    again = explain(parse_hlo(text), PlanOptions("input")).to_json()
    assert {**again, "seconds": 0} == {**report.to_json(), "seconds": 0}


@needs_shared
@pytest.mark.parametrize(
    "path",
    sorted(CORPUS.glob("*infer*.hlo.txt.xz"), key=lambda path: path.stat().st_size)[:6],
    ids=lambda path: path.name.split(".hlo")[0],
)
def test_reports_of_real_modules_add_up(path):
    module = parse_hlo(read_text(path))
    report = explain(module, PlanOptions("input"))
    check(report)
    assert all(x.source is not None or x.kind == "argument" for x in report.peak.buffers[:3])


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.hlo.txt.xz")), ids=lambda path: path.name)
def test_every_real_module_has_a_report(path):
    module = parse_hlo(read_text(path))
    report = explain(module, PlanOptions("input"))
    check(report)


def test_stages_that_are_not_there_are_refused():
    with pytest.raises(LowtideError, match="input, simplified"):
        explain(parse_hlo(STEP), PlanOptions("fuse"))


def test_what_was_fused_is_not_called_unoptimized():
    said = {
        stage: " ".join(explain(parse_hlo(STEP), PlanOptions(stage)).caveats) for stage in STAGES
    }
    assert ["not optimized yet" in said[stage] for stage in STAGES] == [True] * 3 + [False] * 2


def test_calls_that_cannot_be_written_out_are_refused():
    lines = ["HloModule m", "f.0 {", "  p.0 = f32[4] parameter(0)",
             "  ROOT n.0 = f32[4] negate(p.0)", "}"]  # fmt: skip
    for i in range(1, 40):
        lines += [f"f.{i} {{", f"  p.{i} = f32[4] parameter(0)",
                  f"  m.{i} = f32[4] call(p.{i}), to_apply=f.{i - 1}",
                  f"  ROOT n.{i} = f32[4] call(m.{i}), to_apply=f.{i - 1}", "}"]  # fmt: skip
    lines += ["ENTRY main {", "  P = f32[4] parameter(0)",
              "  ROOT c = f32[4] call(P), to_apply=f.39", "}"]  # fmt: skip
    with pytest.raises(LowtideError, match="written out"):
        explain(parse_hlo("\n".join(lines)), PlanOptions("input"))


def test_deep_calls_have_figures_as_far_as_time_allows():
    lines = ["HloModule m", "f.0 {", "  p.0 = f32[4] parameter(0)",
             "  ROOT n.0 = f32[4] negate(p.0)", "}"]  # fmt: skip
    for i in range(1, 15):
        lines += [f"f.{i} {{", f"  p.{i} = f32[4] parameter(0)",
                  f"  m.{i} = f32[4] call(p.{i}), to_apply=f.{i - 1}",
                  f"  ROOT n.{i} = f32[4] call(m.{i}), to_apply=f.{i - 1}", "}"]  # fmt: skip
    lines += ["ENTRY main {", "  P = f32[4] parameter(0)",
              "  ROOT c = f32[4] call(P), to_apply=f.14", "}"]  # fmt: skip
    report = explain(parse_hlo("\n".join(lines)), PlanOptions("input"))
    names = [x.name for x in report.computations]
    assert "f.14" not in names
    assert names[-1] == "f.0"
    left_out = 15 - len(names)
    assert f"{left_out} deeply nested computations have no figures of their own" in report.caveats


def test_a_condition_that_is_a_body_too_is_listed_as_a_body():
    text = """HloModule m
flip {
  x = pred[] parameter(0)
  ROOT y = pred[] not(x)
}
ENTRY main {
  p = pred[] parameter(0)
  ROOT w = pred[] while(p), condition=flip, body=flip
}
"""
    (flip,) = explain(parse_hlo(text), PlanOptions("input")).computations
    assert (flip.name, flip.role, flip.call_sites) == ("flip", "while body", 1)


def test_sizes_are_exact_up_to_where_64_bits_end():
    text = """HloModule huge
ENTRY main {
  p = f32[1048576,1048576,1001] parameter(0)
  n = f32[1048576,1048576,1001] reverse(p), dimensions={0}
  ROOT r = f32[1048576,1048576,1001] reverse(n), dimensions={1}
}
"""
    report = explain(parse_hlo(text), PlanOptions("input"))
    check(report)
    assert report.ladder.live_bytes == 2 * 4 * 1001 * 2**40
    with pytest.raises(LowtideError, match="in all; at most"):
        explain(parse_hlo(text.replace("1001", "1048576")), PlanOptions("input"))


CAVEATS = {
    "b = f32[8]{0:S(5)} copy(x)": "in host memory",
    'b = f32[8] custom-call(x), custom_call_target="annotate_device_placement"': "not offloaded",
    "b = s4[8] convert(x)": "less than 8 bits",
    "b = f32[<=8] parameter(1)": "dynamic dimensions",
    'b = f32[8] custom-call(x), custom_call_target="solve"': "custom calls take",
    "b = f32[8] all-gather(x), dimensions={0}": "devices take to exchange data",
}


@pytest.mark.parametrize("line", CAVEATS)
def test_what_the_figures_leave_open_is_said(line):
    text = f"""HloModule m
ENTRY main {{
  x = f32[8] parameter(0)
  {line}
  ROOT y = f32[8] negate(x)
}}
"""
    said = " ".join(explain(parse_hlo(text), PlanOptions("input")).caveats)
    for each, words in CAVEATS.items():
        assert (words in said) == (each == line)


LOOP = """HloModule m
less {{ s = (s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  one = s32[] {step}  j = s32[] add(i, one)  ROOT r = (s32[]) tuple(j) }}
ENTRY main {{
  i = s32[] constant(0)
  t = (s32[]) tuple(i)
  ROOT loop = (s32[]) while(t), condition=less, body=step{config}
}}
"""
CLAIM = ', backend_config={{"known_trip_count":{{"n":"{n}"}}}}'


@pytest.mark.parametrize(
    ("step", "config", "words"),
    [
        ("constant(1)", "", ""),
        ("constant(1)", CLAIM.format(n=3), ""),
        ("constant(1)", CLAIM.format(n=4), "although the loops run otherwise: loop"),
        ("popcnt(i)", CLAIM.format(n=4), "which nothing confirms: loop"),
        ("popcnt(i)", "", "count as run once: loop"),
    ],
)
def test_what_times_believe_is_said(step, config, words):
    module = parse_hlo(LOOP.format(step=step, config=config))
    said = time_caveats(module)
    assert len(said) == bool(words)
    assert not words or words in said[0]


def test_packed_elements_count_their_bits():
    text = """HloModule m
ENTRY main {
  x = s4[1001]{0:E(4)} parameter(0)
  ROOT y = s4[1001]{0:E(4)} negate(x)
}
"""
    report = explain(parse_hlo(text), PlanOptions("input"))
    assert report.argument_bytes == 501
    assert not [x for x in report.caveats if "8 bits" in x]


def test_each_result_of_a_fusion_keeps_its_line() -> None:
    text = """
HloModule m

ENTRY main {
  x = f32[64,64] parameter(0)
  s = f32[64,64] sine(x), metadata={op_name="s" source_file="a.py" source_line=1}
  c = f32[64,64] cosine(x), metadata={op_name="c" source_file="a.py" source_line=2}
  ROOT both = (f32[64,64], f32[64,64]) tuple(s, c)
}
"""
    report = explain(parse_hlo(text), PlanOptions("fused"))
    lines = {x.name: x.source.line for x in report.peak.buffers if x.source is not None}
    assert sorted(lines.values()) == [1, 2]
    assert all("fusion" in name for name in lines)
