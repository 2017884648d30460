"""Streams of asynchronous operations: turns, communication, and who waits."""

import pytest
from tests.xla.streams.execution_streams import MAIN, Stream, StreamKind, execution_streams

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError


def scopes(count):
    """A module that starts `count` asynchronous computations and then ends them in order."""
    computations, starts, ends = [], [], []
    for i in range(count):
        computations.append(
            f"work{i} {{\n  k{i} = f32[8] parameter(0)\n  ROOT n{i} = f32[8] negate(k{i})\n}}"
        )
        starts.append(f"  start{i} = ((f32[8]), f32[8], s32[]) async-start(p), calls=work{i}")
        ends.append(f"  d{i} = f32[8] async-done(start{i})")
    names = ", ".join([f"d{i}" for i in range(count)])
    shape = ", ".join(["f32[8]"] * count)
    entry = ["ENTRY e {", "  p = f32[8] parameter(0)", *starts, *ends]
    entry += [f"  ROOT r = ({shape}) tuple({names})", "}"]
    return parse_hlo("\n".join(["HloModule m", *computations, *entry]))


def named(streams):
    return {instruction.name: stream for instruction, stream in streams.items()}


def test_asynchronous_computations_take_turns_on_the_extra_streams():
    found = named(execution_streams(scopes(6)).stream)
    assert [found[f"start{i}"].number for i in range(6)] == [1, 2, 3, 4, 1, 2]
    assert [found[f"n{i}"] for i in range(6)] == [found[f"start{i}"] for i in range(6)]
    assert {found["p"], found["d0"], found["r"]} == {MAIN}
    few = named(execution_streams(scopes(3), extra_streams=2).stream)
    assert [few[f"start{i}"].number for i in range(3)] == [1, 2, 1]


def test_streams_wait_at_start_and_at_done():
    found = execution_streams(scopes(1))
    extra = Stream(StreamKind.COMPUTE, 1)
    waits = [(x.instruction.name, x.waiting, x.awaited) for x in found.waits]
    assert sorted(waits[:2]) == [("d0", MAIN, extra), ("start0", extra, MAIN)]
    assert len(waits) == 2
    assert named(found.source)["start0"] == MAIN


COLLECTIVES = """HloModule m
sum {
  k = f32[] parameter(0)
  l = f32[] parameter(1)
  ROOT o = f32[] add(k, l)
}
ENTRY e {
  p = f32[8] parameter(0)
  s = f32[8] all-reduce-start(p), to_apply=sum
  n = f32[8] negate(p)
  d = f32[8] all-reduce-done(s)
  ROOT r = f32[8] add(n, d)
}"""


def test_communication_has_a_stream_of_its_own():
    found = execution_streams(parse_hlo(COLLECTIVES))
    stream = named(found.stream)
    assert stream["s"] == Stream(StreamKind.COLLECTIVE, 0)
    assert stream["n"] == stream["d"] == MAIN
    assert [x.instruction.name for x in found.waits] == ["s", "d"]


def test_called_computations_run_on_the_stream_of_their_caller():
    text = """HloModule m
inner {
  i = f32[8] parameter(0)
  ROOT j = f32[8] sine(i)
}
work {
  k = f32[8] parameter(0)
  ROOT c = f32[8] call(k), to_apply=inner
}
ENTRY e {
  p = f32[8] parameter(0)
  s = ((f32[8]), f32[8], s32[]) async-start(p), calls=work
  ROOT d = f32[8] async-done(s)
}"""
    stream = named(execution_streams(parse_hlo(text)).stream)
    assert stream["j"] == stream["c"] == stream["s"] == Stream(StreamKind.COMPUTE, 1)


def test_no_extra_stream_and_several_call_sites_are_refused():
    with pytest.raises(ValueError, match="need a stream, not 0"):
        execution_streams(scopes(1), extra_streams=0)
    text = """HloModule m
callee {
  k = f32[8] parameter(0)
  ROOT n = f32[8] negate(k)
}
ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] call(p), to_apply=callee
  ROOT b = f32[8] call(a), to_apply=callee
}"""
    with pytest.raises(LowtideError, match="called 2 times"):
        execution_streams(parse_hlo(text))
