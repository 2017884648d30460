"""Diffs: parts that add up, the line to blame, and programs that have nothing in common."""

import json
import re

import pytest
from hypothesis import given, settings
from tests.autopsy.plans import WASTEFUL, planned
from tests.random_modules.strategies import memory_modules, modules
from tests.support import EXAMPLES

import lowtide
from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import InputError
from lowtide.report.diff import ChangeKind, diff_of
from lowtide.report.diff_text import diff_markdown, diff_text, headline
from lowtide.report.matching import match_buffers
from lowtide.report.side import side_of_json, side_of_report
from lowtide.search.effort import Effort, SearchOptions
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

LAYERS = """HloModule net
ENTRY e {{
  w = f32[64,64] parameter(0), metadata={{op_name="w"}}
  x = f32[64,64] parameter(1), metadata={{op_name="x"}}
  a = f32[64,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/a/dot_general" source_file="net.py" source_line=4}}
{extra}  b = f32[64,64] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/b/dot_general" source_file="net.py" source_line=5}}
  ROOT c = f32[64,64] dot({last}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/c/dot_general" source_file="net.py" source_line=6}}
}}
"""  # noqa: E501
KEPT = (
    "  k = f32[64,64] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    'metadata={op_name="jit(f)/k/dot_general" source_file="net.py" source_line=9}\n'
)
BEFORE = LAYERS.format(extra="", last="b, w")
AFTER = LAYERS.format(extra=KEPT, last="b, k").replace("ROOT c", "ROOT c")
OTHER = """HloModule other
ENTRY e {
  p = f32[10] parameter(0)
  q = f32[10] sort(p), dimensions={0}, to_apply=less, metadata={op_name="jit(g)/z/sort"}
  ROOT r = f32[10] reverse(q), dimensions={0}, metadata={op_name="jit(g)/z/rev"}
}
"""
LESS = """less {
  l = f32[] parameter(0)
  r.1 = f32[] parameter(1)
  ROOT c = pred[] compare(l, r.1), direction=LT
}
"""
OTHER = OTHER.replace("ENTRY", f"{LESS}ENTRY")


def check_parts(diff) -> None:
    assert sum([x.nbytes for x in diff.parts]) == diff.nbytes
    sizes = [abs(x.nbytes) for x in diff.parts]
    assert 0 not in sizes and sizes == sorted(sizes, reverse=True)
    assert diff.to_json()["difference_bytes"] == diff.nbytes


def reported(module):
    return explain(module, PlanOptions("input", search=SearchOptions(effort=Effort.FAST)))


@settings(max_examples=40, deadline=None)
@given(modules(max_instructions=12), modules(max_instructions=12))
def test_parts_of_random_modules_add_up(first, second):
    sides = [side_of_report(reported(x), "m", x) for x in (first, second)]
    check_parts(diff_of(*sides))
    same = diff_of(sides[0], sides[0])
    assert same.parts == () and same.nbytes == 0


@settings(max_examples=40, deadline=None)
@given(memory_modules(), memory_modules())
def test_each_buffer_is_matched_once(first, second):
    before, after = [reported(x).peak.buffers for x in (first, second)]
    found = match_buffers(before, after)
    assert sorted([x.name for x, _ in found.pairs] + [x.name for x in found.gone]) == sorted(
        [x.name for x in before]
    )
    assert sorted([x.name for _, x in found.pairs] + [x.name for x in found.added]) == sorted(
        [x.name for x in after]
    )


def test_the_first_line_names_the_line_that_changed():
    diff = lowtide.diff(parse_hlo(BEFORE), parse_hlo(AFTER), lowtide.Options(stage="input"))
    check_parts(diff)
    assert diff.nbytes > 0 and diff.culprit is not None
    assert diff.culprit.kind is ChangeKind.ADDED
    first = str(diff).split("\n")[0]
    assert first.startswith("peak +16.4 KB (") and "(net.py:9)" in first
    back = lowtide.diff(parse_hlo(AFTER), parse_hlo(BEFORE), lowtide.Options(stage="input"))
    check_parts(back)
    assert str(back).startswith("peak -16.4 KB (") and "net.py:9" in str(back).split("\n")[0]


def test_what_a_report_alone_tells():
    before, after = [
        side_of_json(json.loads(json.dumps(reported(parse_hlo(x)).to_json())), "r.json")
        for x in (BEFORE, AFTER)
    ]
    diff = diff_of(before, after)
    check_parts(diff)
    assert diff.culprit is not None and diff.culprit.kind is ChangeKind.AT_THE_PEAK


def test_equal_programs():
    module = parse_hlo(BEFORE)
    diff = lowtide.diff(module, module)
    assert str(diff).startswith("peak unchanged: ")
    assert headline(diff) in diff_markdown(diff).replace("\\", "")


@pytest.mark.parametrize(
    ("before", "after", "related"),
    [("gpt2", "gpt2_remat", True), ("mlp", "mnist_cnn", False), ("mlp", "lstm", False)],
)
def test_programs_of_other_names_share_more_than_what_any_two_have(before, after, related):
    diff = lowtide.diff(EXAMPLES / f"{before}.hlo.xz", EXAMPLES / f"{after}.hlo.xz")
    assert diff.is_related is related
    assert ("nothing in common" in str(diff)) is not related


def test_unrelated_programs_are_called_so():
    diff = lowtide.diff(parse_hlo(BEFORE), parse_hlo(OTHER))
    check_parts(diff)
    assert not diff.is_related and diff.culprit is None
    assert "have next to nothing in common" in str(diff)


SMALL_STEP = """HloModule jit_step
ENTRY e {
  p = f32[4] parameter(0), metadata={op_name="x"}
  ROOT r = f32[4] add(p, p), metadata={op_name="jit(step)/add" source_file="a.py" source_line=3}
}
"""
LARGE_STEP = """HloModule jit_step
ENTRY e {
  p = f32[4000,4] parameter(0), metadata={op_name="x"}
  q = f32[4000,4] parameter(1), metadata={op_name="y"}
  a = f32[4000,4] multiply(p, q), metadata={op_name="jit(step)/mul" source_file="b.py"}
  ROOT r = f32[4000,4] add(p, a), metadata={op_name="jit(step)/add" source_file="b.py"}
}
"""


@pytest.mark.parametrize("wider", [False, True])
def test_a_program_is_known_again_where_one_text_has_no_metadata(wider):
    """The names of arguments stand in metadata, too, which JAX leaves out of `as_text("hlo")`."""
    bare = re.sub(r", metadata=\{[^}]*\}", "", LARGE_STEP)
    for name, number in (("p", 0), ("q", 1)):
        bare = re.sub(rf"\b{name}\b", f"Arg_{number}.{number}", bare)
    bare = bare.replace("4000,", "4008,") if wider else bare
    for before, after in ((LARGE_STEP, bare), (bare, LARGE_STEP)):
        diff = lowtide.diff(parse_hlo(before), parse_hlo(after))
        check_parts(diff)
        if wider:
            assert "2 arguments" in str(diff)
        else:
            assert diff.is_related and not diff.nbytes and not diff.parts


def test_two_programs_of_one_name_that_take_nothing_alike_are_unrelated():
    diff = lowtide.diff(parse_hlo(SMALL_STEP), parse_hlo(LARGE_STEP))
    check_parts(diff)
    assert not diff.is_related
    shared = "0 of 1 and 2 arguments, 0 of 1 and 1 results, 0 of 1 and 2 operations"
    assert f"  shared  {shared}" in str(diff) and f"shared: {shared}" in diff_markdown(diff)
    assert "%" not in str(diff)
    assert diff.to_json()["common"][0] == {
        "what": "arguments",
        "shared": 0,
        "before": 1,
        "after": 2,
    }


def test_the_same_program_of_another_size_is_related_and_many_times_as_large():
    larger = SMALL_STEP.replace("[4]", "[40000]")
    diff = lowtide.diff(parse_hlo(SMALL_STEP), parse_hlo(larger))
    check_parts(diff)
    assert diff.is_related
    first = str(diff).split("\n")[0]
    assert "(from 32 B to 320.0 KB)" in first and "%" not in first
    assert [x.shared for x in diff.common] == [0, 0, 0] and "shared" not in str(diff)
    twice = lowtide.diff(parse_hlo(SMALL_STEP), parse_hlo(SMALL_STEP.replace("[4]", "[8]")))
    assert "(+100%)" in str(twice)


def test_what_is_shared_is_not_known_of_reports():
    sides = [side_of_report(reported(parse_hlo(x)), "m") for x in (BEFORE, OTHER)]
    diff = diff_of(*sides)
    assert not diff.is_related and diff.common == () and "shared" not in str(diff)


def test_numbers_of_instructions_mean_nothing():
    renamed = (
        BEFORE.replace(" a ", " dot.77 ").replace("(a,", "(dot.77,").replace("a =", "dot.77 =")
    )
    diff = lowtide.diff(parse_hlo(BEFORE), parse_hlo(renamed))
    assert diff.parts == ()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_screens_fit(width):
    diff = lowtide.diff(parse_hlo(BEFORE), parse_hlo(AFTER), lowtide.Options(stage="input"))
    assert max(map(len, diff_text(diff, width=width).split("\n"))) <= width


def test_names_of_strangers_do_nothing():
    bad = AFTER.replace("net.py", "<script>|x.py")
    diff = lowtide.diff(parse_hlo(BEFORE), parse_hlo(bad), lowtide.Options(stage="input"))
    text = diff_markdown(diff)
    assert "<script>" not in text.replace("\\<", "") and "\\|x.py" in text


# -- the command -----------------------------------------------------------------------------------


def test_files_of_each_kind(lowtide_command, tmp_path):
    before, after = tmp_path / "a.hlo", tmp_path / "b.hlo"
    before.write_text(BEFORE)
    after.write_text(AFTER)
    report = tmp_path / "a.json"
    assert lowtide_command("explain", before, "--json", "--stage", "input") == 0
    report.write_text(lowtide_command.out)
    plan = tmp_path / "plan.json"
    assert lowtide_command("plan", after, "-o", plan, "--stage", "input") == 0
    for first, second in ((before, after), (report, after), (report, plan), (before, plan)):
        assert lowtide_command("diff", first, second, "--stage", "input", "--json") == 0
        document = json.loads(lowtide_command.out)
        assert document["schema"] == "lowtide.diff/1"
        assert sum([x["bytes"] for x in document["parts"]]) == document["difference_bytes"]
        assert document["difference_bytes"] == 16384
        assert "net.py:9" in document["headline"]
    assert lowtide_command("diff", before, after, "--markdown") == 0
    assert lowtide_command.out.startswith("**peak")
    assert lowtide_command("diff", before, after, "--markdown", "--json") == 1


def test_a_dump_directory_counts_with_its_plan(lowtide_command, tmp_path):
    made = planned(WASTEFUL)
    (tmp_path / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(str(made.module))
    text = buffer_assignment_text(made.module, made.assignment)
    beside = "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt"
    (tmp_path / beside).write_text(text)
    assert lowtide_command("diff", tmp_path, tmp_path, "--json") == 0
    document = json.loads(lowtide_command.out)
    assert document["before"]["file"].endswith("buffer-assignment.txt")
    assert document["difference_bytes"] == 0
    assert lowtide_command("explain", tmp_path, "--no-compile") == 0
    assert "the plan takes" in lowtide_command.out and "optimal" not in lowtide_command.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a module|expected 'HloModule'|expected"),
        ("{}", "expected a report of schema 'lowtide.memory/1', found None"),
        ('{"schema": "lowtide.memory/1"}', "the report has no 'ladder'"),
        (
            '{"schema": "lowtide.memory/1", "ladder": 3, "module": "m", "total_bytes": []}',
            "malformed",
        ),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, message):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises((InputError, lowtide.HloTextError), match=message):
        lowtide.diff(path, path)
    with pytest.raises(TypeError, match="expected a path, a Module or a report"):
        lowtide.diff(3, path)
