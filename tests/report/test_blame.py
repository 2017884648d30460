"""Blame: the user's own line, scopes of helpers, trees of calls, and screens of any width."""

import pytest
from tests.support import EXAMPLES

import lowtide.api
from lowtide.compiler import PlanOptions, explain
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import SourceLocation
from lowtide.ir.metadata import FileLocation, StackFrame, StackFrames
from lowtide.report.blame import is_backward, primitive_of, scope_of, user_frame
from lowtide.report.drawing import in_lines, whole_or_short
from lowtide.report.grouping import groups_of
from lowtide.report.text import explain_text

MINE = SourceLocation("train/model.py", 7, "block")
THEIRS = SourceLocation("env/lib/python3.12/site-packages/flax/linear.py", 700, "Dense")


@pytest.mark.parametrize(
    ("name", "scope", "primitive"),
    [
        ("jit(f)/jvp(stem)/conv", ("jvp(stem)",), "conv"),
        ("jit(f)/transpose(jvp(a/b))/c/dot", ("transpose(jvp(a/b))", "c"), "dot"),
        ("a/jit(relu)/max", ("a", "jit(relu)"), "max"),
        ("params['w']", (), ""),
        ("", (), ""),
    ],
)
def test_scopes(name, scope, primitive):
    assert (scope_of(name), primitive_of(name)) == (scope, primitive)


def test_what_computes_a_gradient():
    assert is_backward("jit(f)/transpose(jvp(net))/dot")
    assert not is_backward("jit(f)/jvp(net)/transpose")


@pytest.mark.parametrize(
    "file",
    [
        "x/site-packages/a.py",
        "x/dist-packages/a.py",
        "usr/lib/python3.11/b.py",
        "<frozen runpy>",
        lowtide.api.__file__,
    ],
)
def test_libraries_are_not_blamed(file):
    library = SourceLocation(file, 1)
    assert user_frame([library, MINE]) == MINE
    assert user_frame([library]) == library
    assert user_frame([]) is None


def test_calls_from_the_inside_out():
    places = (FileLocation(1, 1, 3), FileLocation(1, 1, 5))
    frames = StackFrames(("a.py",), ("f",), places, (StackFrame(1), StackFrame(2, 1)))
    assert [x.line for x in frames.calls(2)] == [5, 3]
    looped = StackFrames(("a.py",), ("f",), places, (StackFrame(1, 2), StackFrame(2, 1)))
    assert [x.line for x in looped.calls(2)] == [5, 3]
    assert frames.calls(7) == frames.calls(0) == ()


HELPER = "\n".join(
    [
        "HloModule m",
        "ENTRY e {",
        "  x = f32[1000] parameter(0)",
        *[
            f'  v{i} = f32[1000] negate(x), metadata={{op_name="jit(f)/block{i}/neg" '
            'source_file="helper.py" source_line=3}'
            for i in range(4)
        ],
        "  c = f32[4000] concatenate(v0, v1, v2, v3), dimensions={0}",
        "  ROOT s = f32[4000] reverse(c), dimensions={0}",
        "}",
    ]
)


def test_a_helper_is_split_by_scope():
    report = explain(parse_hlo(HELPER), PlanOptions("input"))
    labels = {x.label for x in groups_of(report.peak.buffers) if x.source}
    assert {"block0", "block1", "block2", "block3"} <= labels
    assert "block2" in explain_text(report)
    functions = groups_of(report.peak.buffers, "function")
    assert len([x for x in functions if x.source and x.source.file == "helper.py"]) == 1


NESTED = HELPER.replace("jit(f)/block", "jit(f)/net/part/h").replace(
    "ROOT s",
    'lone = f32[10] slice(x), slice={[0:10]}, metadata={op_name="jit(f)/z/neg" '
    'source_file="helper.py" source_line=3}\n  ROOT s',
)


def test_a_part_that_has_most_is_split_in_turn():
    report = explain(parse_hlo(NESTED), PlanOptions("input"))
    labels = {x.label for x in groups_of(report.peak.buffers) if x.source}
    assert {f"net/part/h{i}" for i in range(4)} <= labels


STACKED = """HloModule m

FileNames
1 "model.py"
2 "env/lib/python3.12/site-packages/nn/dense.py"

FunctionNames
1 "step"
2 "Dense.__call__"

FileLocations
1 {file_name_id=1 function_name_id=1 line=11 end_line=11 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=99 end_line=99 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] negate(x), metadata={op_name="jit(f)/dense/neg" stack_frame_id=2}
  ROOT z = f32[1000] reverse(y), dimensions={0}, metadata={op_name="jit(f)/rev" stack_frame_id=1}
}
"""


def test_the_users_line_stands_for_that_of_a_library():
    report = explain(parse_hlo(STACKED), PlanOptions("input"))
    assert "model.py:11" in explain_text(report) and "dense.py" not in explain_text(report)
    everything = explain_text(report.in_all_frames())
    assert "dense.py:99" in everything
    tree = explain_text(report, by="stack")
    assert tree.index("step  model.py:11") < tree.index("Dense  dense.py:99")
    assert "neg" in explain_text(report, by="op")
    assert "dense" in explain_text(report, by="scope")
    assert "outputs" in explain_text(report, by="cause")


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["mlp", "lstm", "mnist_cnn"])
def test_nothing_is_cut(name, width):
    report = explain(read(EXAMPLES / f"{name}.hlo.xz"), PlanOptions("input"))
    for by in ("line", "function", "op", "cause"):
        text = explain_text(report, width=width, by=by)
        assert max(map(len, text.split("\n"))) <= width
        assert len(text.split("\n")) <= 24
        table = text[text.index("share") :]
        shapes = [x.shape for x in report.peak.buffers]
        assert "…" not in table.split("\n\n")[0]
        assert any(shape in table for shape in shapes)


def test_parts_are_never_broken():
    parts = ["alpha beta 1.0 MB", "gamma 2.0 MB", "delta 3.0 MB"]
    lines = in_lines("  in all: ", parts, 32)
    assert max(map(len, lines)) <= 32
    assert all(any(part in line for line in lines) for part in parts)


def test_a_reason_is_whole_or_not_there():
    assert whole_or_short("It is copied", "why not", 40, 1) == ["It is copied: why not."]
    assert whole_or_short("It is copied", "so " * 40, 44, 1) == [
        "It is copied; the reason is in --json."
    ]
    assert whole_or_short("It is copied", "so " * 40, 44, 0) == []
