"""Reports in XLA's formats, next to what XLA itself dumps for its own plans."""

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.xla.dumped.buffer_info import buffer_info_csv
from tests.xla.dumped.live_range import live_range_text
from tests.xla.dumped.peak import peak_text
from tests.xla.dumped.statistics import most_live_bytes, plan_statistics, statistics_text
from tests.xla.dumped.value_uses import value_uses_text

from lowtide import compiler
from lowtide.frontend.hlo_proto import read_hlo_proto_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.buffer import AllocationKind, BufferAssignment
from lowtide.xla.analysis.hlo_alias import hlo_alias_analysis
from lowtide.xla.analysis.hlo_dataflow import hlo_dataflow
from lowtide.xla.analysis.hlo_live_range import hlo_live_range
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text, bytes_text
from lowtide.xla.dumps.memory_usage import memory_usage, memory_usage_text

PROGRAMS = """
import jax, jax.numpy as np
from jax import lax

def update(state, x):
    return {k: v - 0.1 * np.tanh(v @ x) for k, v in state.items()}, x.sum()

def loop(x):
    def body(carry, i):
        carry = lax.cond(i % 2 == 0, np.sin, lambda y: y @ y, carry)
        return carry, (carry[0].sum(), np.sort(carry[1]))
    return lax.scan(body, x, np.arange(4))

def wide(x):
    parts = [np.cumsum(np.sort(x * i))[::-1] for i in range(30)]
    return [p @ p for p in parts], np.stack(parts) @ np.ones((40, 3))

a = np.ones((160, 160))
jax.jit(update, donate_argnums=0).lower({"v": a, "w": a}, a).compile()
jax.jit(loop).lower(a).compile()
jax.jit(wide).lower(np.arange(40.)).compile()
"""
NAMES = ("update", "loop", "wide")
STAGE = "cpu_after_optimizations"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory) -> Path:
    """Return a folder with what XLA dumps for the programs."""
    pytest.importorskip("jax")
    folder: Path = tmp_path_factory.mktemp("xla")
    wanted = ("hlo_as_proto", "hlo_as_text", "buffer_assignment_analysis")
    flags = " ".join([f"--xla_dump_to={folder}", *[f"--xla_dump_{x}" for x in wanted]])
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    run = [sys.executable, "-c", PROGRAMS]
    subprocess.run(run, check=True, env=environment, capture_output=True)
    return folder


class Dump:
    """XLA's plan of a program, and its reports by name."""

    def __init__(self, folder: Path, name: str) -> None:
        (proto,) = folder.glob(f"*.jit_{name}.{STAGE}.hlo.pb")
        self._stem = str(proto).removesuffix(".hlo.pb")
        self.module, self.plan = read_hlo_proto_plan(proto.read_bytes())

    def bytes(self, report: str) -> bytes:
        return Path(f"{self._stem}-{report}").read_bytes()

    def text(self, report: str) -> str:
        return self.bytes(report).decode()


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_xlas_plan_is_xlas(dumps, name):
    dump = Dump(dumps, name)
    assert buffer_assignment_text(dump.module, dump.plan) == dump.text("buffer-assignment.txt")


@pytest.mark.parametrize("name", NAMES)
def test_the_memory_usage_of_xlas_plan_is_xlas(dumps, name):
    dump = Dump(dumps, name)
    usage = memory_usage(dump.plan)
    assert memory_usage_text(usage) == dump.text("memory-usage-report.txt")


def test_long_lists_are_cut_as_xla_does(dumps):
    dump = Dump(dumps, "wide")
    assert len(dump.plan.allocations) > 60
    usage = memory_usage(dump.plan)
    assert len(usage[0].allocations) < len(dump.plan.allocations)


def live_ranges(text: str) -> list[str]:
    start, end = text.index("  BufferLiveRange:"), text.index("  Live ranges at")
    return sorted(text[start:end].splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_live_ranges_of_xlas_plan_are_xlas(dumps, name):
    dump = Dump(dumps, name)
    dataflow = hlo_dataflow(dump.module)
    ours = live_range_text(hlo_live_range(dump.module, hlo_alias_analysis(dump.module, dataflow)))
    theirs = dump.text("live-range.txt")
    start = ours.index("  BufferLiveRange:")
    assert ours[:start] == theirs[: theirs.index("  BufferLiveRange:")]
    assert live_ranges(ours) == live_ranges(theirs)
    totals = [int(x.split()[-2]) for x in ours.splitlines() if "(cumulative: " in x]
    assert totals == sorted(totals)


def value_sections(text: str) -> list[tuple[str, list[str], str]]:
    """Return head, positions sorted, and definition of each value."""
    found = []
    for part in text.split("\n<")[1:]:
        head, _, rest = part.partition("\n positions:\n")
        positions, _, uses = rest.partition(" uses:\n")
        found.append((head, sorted(positions.splitlines()), uses.splitlines()[-1]))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_values_of_xlas_plan_are_where_xla_has_them(dumps, name):
    dump = Dump(dumps, name)
    ours = value_uses_text(dump.module, dump.plan, hlo_dataflow(dump.module))
    theirs = dump.text("buffer-assignment-values.txt")
    assert ours[: ours.index("<")] == theirs[: theirs.index("<")]
    assert value_sections(ours) == value_sections(theirs)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_of_xlas_plan(dumps, name):
    dump = Dump(dumps, name)
    plan = dump.plan
    statistics = plan_statistics(plan)
    assert statistics.total_bytes == sum([x.nbytes for x in plan.allocations])
    assert statistics.preallocated_temp.nbytes == plan.temp_bytes
    assert statistics.live_bytes is not None
    assert 0 < statistics.live_bytes <= plan.temp_bytes
    for index, numbers in plan.peak_values.items():
        held = sum([x.place.nbytes for x in plan.values if x.number in numbers])
        assert 0 < held <= plan.allocations[index].nbytes
        if plan.allocations[index].kind is AllocationKind.ARENA:
            assert most_live_bytes(plan, index) == statistics.live_bytes
    peak = peak_text(plan)
    assert peak.startswith("Peak buffers of allocation ")
    assert peak.count("Shape: ") == sum([len(x) for x in plan.peak_values.values() if len(x) > 1])


# -- our plans ---------------------------------------------------------------------------------

SMALL = """HloModule small, is_scheduled=true

ENTRY main {
  x = f32[64] parameter(0)
  a = f32[64] exponential(x), metadata={op_name="f/exp" source_file="f.py" source_line=3}
  c = f32[64] dot(x, a), lhs_batch_dims={0}, rhs_batch_dims={0}
  d = f32[32] slice(c), slice={[0:32]}
  e = f32[32] negate(d)
  f = f32[16] slice(e), slice={[0:16]}
  ROOT out = (f32[16]) tuple(f)
}
"""


def planned() -> tuple[Module, BufferAssignment]:
    plan = compiler.plan(parse_hlo(SMALL), compiler.PlanOptions("input"))
    return plan.module, plan.assignment


def test_the_text_of_our_plan():
    module, plan = planned()
    lines = buffer_assignment_text(module, plan).splitlines()
    assert lines[:3] == [
        "BufferAssignment:",
        "allocation 0: size 256, parameter 0, shape |f32[64]| at ShapeIndex {}:",
        " value: <0 x @0> (size=256,offset=0): f32[64]{0}",
    ]
    assert lines[3] == f"allocation 1: size {plan.arena_bytes}, maybe-live-out:"
    assert len(lines) == 4 + len(plan.values) - 1


def test_statistics_of_our_plan():
    _, plan = planned()
    statistics = plan_statistics(plan)
    assert (statistics.parameter.count, statistics.parameter.nbytes) == (1, 256)
    assert (statistics.maybe_live_out.count, statistics.constant.count) == (1, 0)
    assert most_live_bytes(plan, 1) == 512
    text = statistics_text(statistics)
    assert text.startswith("BufferAssignment statistics:\n")
    assert len({len(line) for line in text.splitlines() if "total allocation" in line}) == 1


def test_buffer_info():
    module, plan = planned()
    times = {x: i for i, x in enumerate(module.entry.instructions.values())}
    text = buffer_info_csv(plan, hlo_dataflow(module), times)
    rows = list(csv.DictReader(io.StringIO(text)))
    by_name = {row["buffer_name"]: row for row in rows}
    row = by_name["<1 a @0>"]
    assert (row["size"], row["num_uses"], row["use_names"]) == ("256", "1", "c")
    assert [int(x["definition_time"]) for x in rows] == sorted(
        [int(x["definition_time"]) for x in rows]
    )
    assert by_name["<0 x @0>"]["use_times"] == "1;2"


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KiB"),
        (2304, "2.2KiB"),
        (1 << 20, "1.00MiB"),
        ((1 << 20) - 1, "1024.0KiB"),
        (5 << 30, "5.00GiB"),
        (3 << 60, "3.00EiB"),
    ],
)
def test_sizes(nbytes, text):
    assert bytes_text(nbytes) == text
