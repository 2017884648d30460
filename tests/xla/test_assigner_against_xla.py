"""Today's assigner makes the plans that XLA makes of the same scheduled modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.checking import check_plan
from lowtide.frontend.hlo_proto import read_hlo_proto_plan
from lowtide.ir.buffer import AllocationKind
from lowtide.xla.analysis.ordering import SequentialOrdering
from lowtide.xla.assigners import assign

pytest.importorskip("jax")

PROGRAMS = ("train_step", "nested_loops", "choose", "update_cache", "histogram")


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """XLA's plans of some programs, and ours for the same modules."""
    folder = tmp_path_factory.mktemp("plans")
    script = Path(__file__).with_name("xla_plans.py")
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_proto"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    found = {}
    for program in PROGRAMS:
        (path,) = folder.glob(f"*jit_{program}.*after_optimizations.hlo.pb")
        module, plan = read_hlo_proto_plan(path.read_bytes())
        found[program] = module, plan, assign(module, SequentialOrdering(module))
    return found


def contents(plan):
    """What lies where in each allocation, whatever its number."""
    inside = {}
    for value in plan.values:
        place = (value.instruction.name, value.index, value.place.offset, value.place.nbytes)
        inside.setdefault(value.place.allocation, []).append(place)
    found = []
    for x in plan.allocations:
        facts = (x.kind, x.nbytes, x.colour, x.parameter, x.output, x.constant, x.maybe_live_out)
        is_tuple = x.is_tuple and x.kind is not AllocationKind.ARENA
        found.append((*map(str, facts), is_tuple, sorted(inside.get(x.index, []))))
    return sorted(found)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_allocation_has_the_size_and_the_contents_of_xlas(plans, program):
    _, theirs, ours = plans[program]
    assert contents(ours) == contents(theirs)


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_are_numbered_in_xlas_order(plans, program):
    _, theirs, ours = plans[program]
    order = [[(v.instruction.name, v.index, v.is_phi) for v in x.values] for x in (theirs, ours)]
    assert order[0] == order[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_heap_is_simulated_as_in_xla(plans, program):
    _, theirs, ours = plans[program]
    expected = [
        [(x.kind, x.computation, x.instruction) for x in trace.events]
        for trace in theirs.heap_traces
        if trace.events
    ]
    found = [
        [(x.kind, x.computation, x.instruction) for x in trace.events] for trace in ours.heap_traces
    ]
    assert found == expected


def bytes_at_peak(plan):
    """The sizes of the values live at the peak of the arena; XLA may name another such moment."""
    (arena,) = [x.index for x in plan.allocations if x.kind is AllocationKind.ARENA]
    return sorted(x.place.nbytes for x in plan.values if x.number in plan.peak_values[arena])


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_much_is_live_at_the_peak(plans, program):
    _, theirs, ours = plans[program]
    assert bytes_at_peak(ours) == bytes_at_peak(theirs)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_verifier_accepts_our_plan(plans, program):
    module, _, ours = plans[program]
    assert not check_plan(module, ours)
