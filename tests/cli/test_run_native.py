"""`lowtide run` in native code: engines, caps, repeats, profiles, traces, the sanitizer."""

import json
import re

import numpy as np
import pytest
from tests.cli.conftest import edited

LOOP = """HloModule loop

less {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

step {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={source_file="a/model.py" source_line=7}
  ROOT t = (s32[], f32[64,64]) tuple(j, y)
}

ENTRY main {
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(s), condition=less, body=step
  ROOT r = f32[64,64] get-tuple-element(w), index=1
}
"""  # noqa: E501


@pytest.fixture
def loop(tmp_path):
    path = tmp_path / "loop.hlo"
    path.write_text(LOOP)
    return path


def test_native_code_is_the_default_and_agrees_with_the_evaluator(lowtide, loop):
    assert lowtide("run", loop, "--json", "--threads", 1) == 0
    native = json.loads(lowtide.out)
    assert lowtide("run", loop, "--json", "--reference") == 0
    reference = json.loads(lowtide.out)
    assert (native["engine"], reference["engine"]) == ("native", "reference")
    assert native["threads"] == 1
    assert native["arena_bytes"] > 0
    pairs = zip(native["outputs"], reference["outputs"], strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours["first"], theirs["first"], rtol=1e-4)
    assert lowtide("run", loop) == 0
    first, second = lowtide.out.splitlines()[:2]
    assert "native code, " in first
    assert second.startswith(("compiled in ", "taken from the cache in "))


def test_repeats_show_median_and_spread_with_the_first_call_apart(lowtide, small):
    assert lowtide("run", small, "--repeat", 4) == 0
    assert "(median of 4, " in lowtide.out
    assert ", first " in lowtide.out
    assert lowtide("run", small, "--json") == 0
    document = json.loads(lowtide.out)
    assert len(document["seconds"]) == 1
    assert "first_seconds" not in document


def test_nothing_runs_that_needs_more_memory(lowtide, loop):
    for engine in ((), ("--arena",), ("--sanitize",)):
        assert lowtide("run", loop, "--memory", "1kB", *engine) == 2
        assert lowtide.out == ""
        assert "more than the 1,000 that it may use" in lowtide.err
    assert lowtide("run", loop, "--memory", "1MiB") == 0
    assert lowtide("run", loop, "--memory", "lots") == 1
    assert "expected a size such as 512MiB" in lowtide.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reference", "--profile"], "--profile is about native code"),
        (["--arena", "--threads", "2"], "--threads is about native code"),
        (["--reference", "--memory", "1MB"], "the evaluator has no memory plan"),
        (["--sanitize", "--repeat", "2"], "--repeat is about plain runs"),
        (["--reproducer", "x.py"], "--reproducer needs --sanitize"),
        (["--arena", "--sanitize", "--reproducer", "x.py"], "--reproducer needs --sanitize"),
    ],
)
def test_options_that_exclude_each_other(lowtide, small, options, message):
    assert lowtide("run", small, *options) == 1
    assert message in lowtide.err


def test_what_has_no_native_code_names_the_way_out(lowtide, tmp_path):
    path = tmp_path / "dynamic.hlo"
    path.write_text(
        "HloModule d\nENTRY e { p = f32[<=8] parameter(0) ROOT n = f32[<=8] negate(p) }"
    )
    assert lowtide("run", path) == 3
    assert "--reference" in lowtide.err
    assert lowtide("run", path, "--reference") == 0


def test_what_the_evaluator_cannot_do_either_is_not_sent_there(lowtide, tmp_path):
    path = tmp_path / "sum.hlo"
    path.write_text(
        "HloModule s\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT c = f32[] add(a, b) }\nENTRY e { p = f32[8] parameter(0) ROOT "
        "n = f32[8] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"
    )
    assert lowtide("run", path) == 3
    assert "other devices" in lowtide.err
    assert "--reference" not in lowtide.err
    assert lowtide("run", path, "--reference") == 3


def test_a_profile_says_which_thunks_are_bundled(lowtide, tmp_path):
    path = tmp_path / "small.hlo"
    path.write_text(
        "HloModule s\nless { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] "
        "compare(a, b), direction=LT }\nENTRY e { p = f32[8] parameter(0) s = f32[8] sort(p), "
        "dimensions={0}, to_apply=less ROOT r = f32[8] exponential(s) }"
    )
    assert lowtide("run", path, "--profile", "--json") == 0
    found = json.loads(lowtide.out)["profile"]
    assert found["bundled_thunks"] == len(found["thunks"]) == 2
    assert lowtide("run", path, "--profile") == 0
    assert "2 of the thunks run in bundles" in lowtide.out


def test_a_profile_has_a_row_for_each_thunk(lowtide, loop, tmp_path):
    trace = tmp_path / "trace.json"
    assert lowtide("run", loop, "--profile", "--trace", trace, "--json", "--repeat", 2) == 0
    found = json.loads(lowtide.out)["profile"]
    assert found["peaks"]["flops_per_second"] > 1e8
    assert found["peaks"]["copied_bytes_per_second"] > 1e7
    rows = {x["name"]: x for x in found["thunks"] if x["kind"] == "kernel"}
    (dot,) = [x for x in rows.values() if x["flops"] >= 64**3]
    assert (dot["calls"], dot["flops"]) == (3, 3 * 2 * 64**3)
    assert dot["source"]["line"] == 7
    assert {x["kind"] for x in found["thunks"]} >= {"kernel", "while"}
    assert found["seconds"] == pytest.approx(sum([x["seconds"] for x in found["thunks"]]))
    events = json.loads(trace.read_text())["traceEvents"]
    slices = [x for x in events if x["ph"] == "X" and x["pid"] == 2]
    assert [x["name"] for x in slices].count(dot["name"]) == 3
    (whole,) = [x for x in slices if x["args"]["kind"] == "while"]
    for x in slices:
        if x["name"] == dot["name"]:
            assert whole["ts"] <= x["ts"]
            assert x["ts"] + x["dur"] <= whole["ts"] + whole["dur"] + 0.01
            assert x["args"]["source"] == "a/model.py:7"
    assert {x["pid"] for x in events} == {1, 2}
    assert lowtide("run", loop, "--profile") == 0
    assert "model.py:7" in lowtide.out
    assert " GFLOP/s (f32 multiply-add), " in lowtide.out


def test_the_sanitizer_says_what_it_checked(lowtide, loop, small):
    assert lowtide("run", loop, "--sanitize") == 0
    assert "thunks wrote what they must, nothing else" in lowtide.out
    assert lowtide("run", small, "--sanitize", "--json") == 0
    document = json.loads(lowtide.out)
    assert (document["engine"], document["not_compared"]) == ("sanitizer", [])
    assert document["thunks"] > 0


def test_faults_have_status_4_and_a_test(lowtide, small, tmp_path, monkeypatch):
    from lowtide.client.errors import SanitizerError
    from lowtide.inspection.expected_results import Expected

    usual = Expected.difference

    def difference(self, instruction, operands, found):
        wrong = [x + 1 if x.dtype == np.float32 else x for x in found]
        return usual(self, instruction, operands, wrong)

    monkeypatch.setattr(Expected, "difference", difference)
    test = tmp_path / "test_it.py"
    assert lowtide("run", small, "--sanitize", "--reproducer", test) == 4
    assert "error: a/step.py:3: " in lowtide.err
    assert re.search(
        r"does not compute what the evaluator does: result \d, f32\[2,3\]: ", lowtide.err
    )
    assert f"the test in {test} shows the fault" in lowtide.err
    names: dict[str, object] = {}
    exec(compile(test.read_text(), str(test), "exec"), names)
    (found,) = [x for name, x in names.items() if name.startswith("test_")]
    with pytest.raises(SanitizerError, match="does not compute"):
        found()
    monkeypatch.undo()
    found()


def test_unknown_custom_calls_are_refused(lowtide, small):
    path = edited(small, "negate(y)", 'custom-call(y), custom_call_target="nobody"')
    assert lowtide("run", path) == 3
    assert "nobody" in lowtide.err
