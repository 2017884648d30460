"""`explain --format`: each format is read by something that is not what wrote it."""

import itertools
import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from tests.random_modules.strategies import memory_modules
from tests.support import EXAMPLES

from lowtide.checking.packing import check_packing
from lowtide.checking.packing_csv import read_packing_csv
from lowtide.cli.explain_formats import timeline_of
from lowtide.compiler import PlanOptions, plan
from lowtide.report.timeline import TimelineBuffer, lanes, timeline_csv

MODULE = EXAMPLES / "mlp.hlo.xz"
PHASES = {"M": {"name", "args"}, "C": {"name", "ts", "args"}, "X": {"name", "ts", "dur", "args"}}
"""Of Chrome's trace event format: the fields that an event of each phase must have."""

MESSAGES = {
    "Trace": [("packet", 1, "TracePacket")],
    "TracePacket": [
        ("timestamp", 8, "uint64"),
        ("trusted_packet_sequence_id", 10, "uint32"),
        ("track_event", 11, "TrackEvent"),
        ("track_descriptor", 60, "TrackDescriptor"),
    ],
    "TrackDescriptor": [
        ("uuid", 1, "uint64"),
        ("name", 2, "string"),
        ("counter", 8, "CounterDescriptor"),
    ],
    "CounterDescriptor": [("unit", 3, "int32")],
    "TrackEvent": [
        ("type", 9, "int32"),
        ("track_uuid", 11, "uint64"),
        ("name", 23, "string"),
        ("counter_value", 30, "int64"),
    ],
}
"""The part of Perfetto's schema that is used, by name and number."""


def trace_class():
    """Return the class of traces."""
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="p", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=1 + 2 * (field == "packet"))
            if kind in MESSAGES:
                added.type, added.type_name = 11, f".p.{kind}"
            else:
                added.type = {"uint64": 4, "uint32": 13, "int32": 5, "int64": 3, "string": 9}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Trace"))


def test_chrome(lowtide):
    assert lowtide("explain", MODULE, "--format", "chrome") == 0
    events = json.loads(lowtide.out)["traceEvents"]
    for event in events:
        assert PHASES[event["ph"]] <= set(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
    slices = [x for x in events if x["ph"] == "X"]
    for thread in {x["tid"] for x in slices}:
        mine = sorted([(x["ts"], x["ts"] + x["dur"]) for x in slices if x["tid"] == thread])
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))
    lowtide("explain", MODULE, "--json")
    report = json.loads(lowtide.out)
    counts = [x["args"]["bytes"] for x in events if x["ph"] == "C"]
    assert max(counts) == report["ladder"]["live_bytes"] + report["alias_bytes"]


def test_perfetto(lowtide, tmp_path):
    file = tmp_path / "trace.pftrace"
    assert lowtide("explain", MODULE, "--format", "perfetto", "-o", file) == 0
    trace = trace_class()()
    trace.ParseFromString(file.read_bytes())
    assert trace.SerializeToString() == file.read_bytes()
    tracks = {x.track_descriptor.uuid for x in trace.packet if x.HasField("track_descriptor")}
    events = [x for x in trace.packet if x.HasField("track_event")]
    assert {x.track_event.track_uuid for x in events} <= tracks
    open_slices: dict[int, int] = {}
    for x in events:
        track, kind = x.track_event.track_uuid, x.track_event.type
        assert kind in (1, 2, 4)
        open_slices[track] = open_slices.get(track, 0) + {1: 1, 2: -1, 4: 0}[kind]
        assert 0 <= open_slices[track] <= 1
    assert not any(open_slices.values())


@settings(max_examples=40, deadline=None)
@given(memory_modules())
def test_csv_is_a_packing_that_the_checker_accepts(module):
    planned = plan(module, PlanOptions("input"))
    text = timeline_csv(timeline_of(planned))
    if "\n" not in text.strip():
        return
    packing = read_packing_csv(text, "plan.csv")
    assert check_packing(packing.records, packing.offsets) == ()


def test_lanes_are_few_and_apart():
    spans = [(0, 3), (1, 2), (3, 5), (4, 6), (6, 6)]
    buffers = [TimelineBuffer(f"b{i}", "", "", 1, 0, *x) for i, x in enumerate(spans)]
    found = lanes(buffers)
    assert len(found) == 2 and sum(map(len, found)) == 5
    for lane in found:
        assert all(a.last < b.first for a, b in itertools.pairwise(lane))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "chrom"), "no 'chrom'; did you mean 'chrome'"),
        (("--format", "perfetto"), "is binary; name a file with -o"),
        (("--format", "csv", "--json"), "leave out --plan, --json"),
        (("-o", "x"), "-o is for --format"),
        (("--by", "lines"), "no 'lines'; did you mean 'line'"),
        (("--frames", "al"), "no 'al'; did you mean 'all'"),
    ],
)
def test_what_does_not_fit_is_refused(lowtide, options, message):
    assert lowtide("explain", MODULE, *options) == 1
    assert message in lowtide.err and lowtide.err.count("\n") == 1
