"""The snapshot for PyTorch's viewer: Python's own pickle reads it, and it replays the plan."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import EXAMPLES

import lowtide
from lowtide.compiler import plan
from lowtide.compiler.picture import picture_of
from lowtide.report.memory_viz import memory_viz
from lowtide.report.pickled import pickled

VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda x: st.lists(x) | st.tuples(x, x) | st.dictionaries(st.text("abc"), x),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_pickled_is_read_back(value: object) -> None:
    assert pickle.loads(pickled(value)) == value


def test_other_values_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot pickle a float"):
        pickled([1.5])


def test_the_trace_replays_the_plan() -> None:
    found = plan(lowtide.read(EXAMPLES / "mnist_cnn.hlo.xz"))
    document = pickle.loads(memory_viz(picture_of(found)))
    (trace,) = document["device_traces"]
    taken: dict[int, int] = {}
    most = 0
    for event in trace:
        if event["action"] == "alloc":
            end = event["addr"] + event["size"]
            assert not any(a < end and event["addr"] < a + n for a, n in taken.items())
            taken[event["addr"]] = event["size"]
            most = max(most, sum(taken.values()))
        elif event["action"] == "free_completed":
            assert taken.pop(event["addr"]) == event["size"]
    assert most == int(found.ranges.profile.max())
    times = [event["time_us"] for event in trace]
    assert times == sorted(times)
    blocks = [x for segment in document["segments"] for x in segment["blocks"]]
    active = {x["address"]: x["size"] for x in blocks if x["state"] == "active_allocated"}
    assert active == taken
    for segment in document["segments"]:
        assert sum([x["size"] for x in segment["blocks"]]) == segment["total_size"]
    frames = [x for event in trace for x in event["frames"]]
    assert any(x["filename"].endswith("models.py") and x["line"] > 0 for x in frames)
