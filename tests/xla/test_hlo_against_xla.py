"""Values, buffers and live ranges are those of XLA, as its own plans show them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import HANG_SECONDS

from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.frontend.hlo_proto.messages import parse_message
from lowtide.ir.traversal import fused_computations
from lowtide.xla.analysis.hlo_alias import hlo_alias_analysis
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.hlo_live_range import hlo_live_range

pytest.importorskip("jax")

PROGRAMS = ("train_step", "nested_loops", "choose", "update_cache", "histogram")
FREE = 1


class XlaPlan:
    """A module that XLA compiled, and its buffer assignment in terms of that module."""

    def __init__(self, data):
        message = parse_message("HloProto", data)
        self.module = read_hlo_proto(data)
        self.plan = parse_message("BufferAssignmentProto", message.buffer_assignment)
        computations = self.module.computations.values()
        named = {x.name: x for c in computations for x in c.instructions.values()}
        protos = [x for c in message.hlo_module.computations for x in c.instructions]
        self.instructions = {x.id: named[x.name] for x in protos}
        self.places = {x.id: self.place(x.defined_at) for x in self.plan.logical_buffers}

    def place(self, location):
        return self.instructions[location.instruction_id], tuple(location.shape_index)

    def united(self):
        """The sets of places that XLA put in one buffer."""
        sets = {place: {place} for place in self.places.values()}
        for alias in self.plan.buffer_aliases:
            first = sets[self.places[alias.source_buffer_id]]
            second = sets[self.place(alias.location)]
            if first is not second:
                first |= second
                sets.update(dict.fromkeys(second, first))
        return {frozenset(x) for x in sets.values()}


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xla")
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_proto"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    script = Path(__file__).with_name("xla_plans.py")
    subprocess.run([sys.executable, str(script)], check=True, env=environment, timeout=HANG_SECONDS)
    return {
        name: XlaPlan(
            next(folder.glob(f"*.jit_{name}.cpu_after_optimizations.hlo.pb")).read_bytes()
        )
        for name in PROGRAMS
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_values_with_memory_are_those_of_xla(plans, name):
    xla = plans[name]
    sizes = {xla.places[x.id]: x.size for x in xla.plan.logical_buffers}
    fused = fused_computations(xla.module)
    values = hlo_dataflow(xla.module).values
    ours = {(v.instruction, v.index): v.nbytes for v in values if v.instruction.parent not in fused}
    assert ours == sizes


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_buffers_are_those_of_xla(plans, name):
    xla = plans[name]
    fused = fused_computations(xla.module)
    buffers = [
        frozenset([(v.instruction, v.index) for v in buffer.values])
        for buffer in hlo_alias_analysis(xla.module).buffers
        if buffer.values[0].instruction.parent not in fused
    ]
    assert set(buffers) == xla.united()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_heap_of_xla_makes_and_frees_values_when_we_say(plans, name):
    """In one step it makes all values, then frees; a value that takes a place comes with these."""
    xla = plans[name]
    alias = hlo_alias_analysis(xla.module)
    live = hlo_live_range(xla.module, alias)
    ranges = {(v.instruction, v.index): x for v, x in live.ranges.items()}
    (trace,) = xla.plan.heap_simulator_traces
    moments = []
    for event in trace.events:
        bound = ranges[xla.places[event.buffer_id]]
        moments.append((bound.end, True) if event.kind == FREE else (bound.start, False))
    assert moments
    for before, after, event in zip(moments, moments[1:], trace.events[1:], strict=False):
        assert before <= after or (before[0] == after[0] and event.kind > FREE)


def test_the_programs_have_what_is_to_be_shown(plans):
    phis = [v for x in plans.values() for v in hlo_dataflow(x.module).values if v.is_phi]
    assert {"while", "conditional", "parameter"} <= {v.instruction.opcode for v in phis}
    assert any(len(x) > 3 for plan in plans.values() for x in plan.united())
    assert sum([len(x.events) for p in plans.values() for x in p.plan.heap_simulator_traces]) > 60
    assert any(plan.module.input_output_aliases for plan in plans.values())
