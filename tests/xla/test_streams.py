"""Streams, launch order, and waits between thunks: the lattice of dots, and rules at random."""

import random
from itertools import pairwise

import pytest
from tests.random_modules import MEMORY, Recipe, random_module
from tests.xla.streams.thunk_kinds import has_thunk, thunk_kind
from tests.xla.streams.thunk_schedule import sources_of, thunk_schedule

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode, Schedule
from lowtide.xla.analysis.gpu_ordering import gpu_ordering, launch_partial_order
from lowtide.xla.analysis.ordering import SequentialOrdering
from lowtide.xla.analysis.reachability import reachability
from lowtide.xla.streams.launch_order import breadth_first_order, launch_order, partial_orders
from lowtide.xla.streams.streams import StreamAssignment, assign_streams, is_library_call

MIXED = Recipe(
    ("elementwise", "contraction", "tuples", "in place", "calls", "reduction"),
    max_instructions=25,
    control_dependencies=True,
)


def dots(rows):
    """A module of products of square matrices: name -> operands; one operand stands for itself."""
    lines = ["HloModule lattice", "ENTRY e {"]
    lines += [f"  {name} = f32[8,8] parameter({i})" for i, name in enumerate("pq")]
    for number, (name, operands) in enumerate(rows.items()):
        a, b = (*operands, *operands) if len(operands) == 1 else operands
        root = "ROOT " if number == len(rows) - 1 else ""
        lines.append(
            f"  {root}{name} = f32[8,8] dot({a}, {b}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}"
        )
    return parse_hlo("\n".join([*lines, "}"]))


LATTICE = {
    "d00": ("p", "q"),
    "d10": ("d00",),
    "d11": ("d00",),
    "d20": ("d10",),
    "d21": ("d10", "d11"),
    "d22": ("d11",),
    "d30": ("d20", "d21"),
    "d31": ("d21", "d22"),
    "d40": ("d30", "d31"),
}


@pytest.fixture
def lattice():
    return dots(LATTICE)


def named(mapping):
    return {instruction.name: value for instruction, value in mapping.items()}


# -- the lattice -------------------------------------------------------------------------------


def test_products_that_may_run_at_once_get_streams_of_their_own(lattice):
    assignment = assign_streams(lattice)
    assert named(assignment.streams) == {
        "d00": 0,
        "d10": 0,
        "d20": 0,
        "d11": 1,
        "d21": 1,
        "d30": 0,
        "d22": 2,
        "d31": 1,
        "d40": 0,
    }
    assert assignment.count == 3


def test_launches_go_layer_by_layer(lattice):
    names = [x.name for x in launch_order(assign_streams(lattice))]
    assert names == ["p", "q", *LATTICE]


def test_launch_order_orders_each_stream_and_what_is_read(lattice):
    assignment = assign_streams(lattice)
    ordering = gpu_ordering(lattice, launch_order(assignment), assignment.streams)
    nodes = lattice.entry.instructions

    def before(a):
        return {x.name for x in nodes.values() if ordering.executes_before(nodes[a], x)}

    assert before("d20") == {"d30", "d40"}
    assert before("d22") == {"d31", "d40"}
    assert "d21" in before("d10")
    assert "d21" in before("d11")
    assert ordering.sequential_order(lattice.entry) is None


def test_each_stream_waits_for_others_as_often_as_it_has_to(lattice):
    assignment = assign_streams(lattice)
    thunks = thunk_schedule(assignment, launch_order(assignment))
    assert {x.name: [y.name for y in waits] for x, waits in thunks.waits.items()} == {
        "d11": ["d00"],
        "d21": ["d10"],
        "d22": ["d11"],
        "d30": ["d21"],
        "d31": ["d22"],
        "d40": ["d31"],
    }
    assert [x.name for x in thunks.awaited] == ["d00", "d10", "d11", "d21", "d22", "d31"]


def test_text_of_a_thunk_schedule():
    module = dots({"a": ("p", "q"), "b": ("q", "p"), "c": ("a", "b")})
    assignment = assign_streams(module)
    assert str(thunk_schedule(assignment, launch_order(assignment))) == (
        "Total order:\n  gemm a\n  gemm b\n  gemm c\nDependencies:\n  c depends on b\n"
    )


# -- rules -------------------------------------------------------------------------------------


def test_one_stream_is_launched_in_the_order_of_least_memory(lattice):
    assignment = assign_streams(lattice, several=False)
    order = launch_order(assignment)
    assert set(named(assignment.streams).values()) == {0}
    ordering = gpu_ordering(lattice, order, assignment.streams)
    assert ordering.sequential_order(lattice.entry) == order
    own = tuple(lattice.entry.instructions.values())
    assert launch_order(assignment, own) == own
    lattice.schedule = Schedule({lattice.entry: own})
    assert launch_order(assignment) == own


def test_breadth_first_order_does_not_make_a_stream_wait_for_a_long_chain():
    module = dots({"a": ("p",), "b": ("a",), "c": ("b",), "d": ("a",), "e": ("c", "d")})
    names = [x.name for x in breadth_first_order(module.entry)]
    assert names == ["p", "q", "a", "b", "d", "c", "e"]


def by_hand(module, streams):
    nodes = module.entry.instructions
    chosen = {nodes[name]: stream for name, stream in streams.items()}
    return StreamAssignment(module.entry, chosen, max(streams.values()) + 1)


def test_wait_for_an_earlier_thunk_of_a_stream_awaited_before_is_dropped():
    module = dots({"a": ("p",), "b": ("a",), "c": ("b", "q"), "d": ("a", "c")})
    assignment = by_hand(module, {"a": 0, "b": 0, "c": 1, "d": 1})
    thunks = thunk_schedule(assignment, tuple(module.entry.instructions.values()))
    waits = {x.name: [y.name for y in found] for x, found in thunks.waits.items()}
    assert waits == {"c": ["b"]}
    assert [x.name for x in thunks.awaited] == ["b"]


def test_thunk_waits_through_what_is_not_launched():
    module = parse_hlo("""HloModule m
ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] negate(p)
  b = f32[8] sine(p)
  t = (f32[8], f32[8]) tuple(a, b)
  g = f32[8] get-tuple-element(t), index=1
  h = f32[4,2] bitcast(g)
  c = f32[8] cosine(p)
  ROOT r = f32[4,2] exponential(h), control-predecessors={c}
}""")
    assignment = by_hand(module, {"a": 0, "b": 1, "c": 2, "r": 3})
    thunks = thunk_schedule(assignment, tuple(module.entry.instructions.values()))
    waits = {x.name: [y.name for y in found] for x, found in thunks.waits.items()}
    assert waits == {"r": ["a", "b", "c"]}


STATE = """HloModule m
ENTRY e {
  p = f32[8,8] parameter(0)
  z = f32[] constant(0)
  o = f32[] constant(1)
  a = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  x = f32[8,8] rng(z, o), distribution=rng_uniform
  row = f32[1,1] slice(b), slice={[0:1], [0:1]}
  low = f32[] reshape(row)
  y = f32[8,8] rng(low, o), distribution=rng_uniform
  s = f32[8,8] add(a, x)
  ROOT r = f32[8,8] add(s, y)
}"""


def test_operations_on_one_hidden_state_share_a_stream():
    module = parse_hlo(STATE)
    streams = named(assign_streams(module).streams)
    assert streams["b"] == streams["low"] == 1
    assert streams["x"] == streams["y"] == 0


def test_other_instructions_follow_the_highest_stream_of_their_operands():
    streams = named(assign_streams(parse_hlo(STATE)).streams)
    assert streams["row"] == 1
    assert streams["s"] == 0
    assert "p" not in streams
    assert "z" not in streams


def test_library_calls_are_products_alone_at_the_root_of_a_fusion_or_by_name():
    module = parse_hlo("""HloModule m
fused {
  k = f32[8,8] parameter(0)
  t = f32[8,8] negate(k)
  ROOT d = f32[8,8] dot(t, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  p = f32[8,8] parameter(0)
  f = f32[8,8] fusion(p), kind=kOutput, calls=fused
  g = f32[8,8] custom-call(p), custom_call_target="__cublas$gemm"
  h = f32[8,8] custom-call(p), custom_call_target="callback"
  n = f32[8,8] negate(f)
  ROOT r = (f32[8,8], f32[8,8], f32[8,8]) tuple(n, g, h)
}""")
    found = {x.name: is_library_call(x) for x in module.entry.instructions.values()}
    assert [name for name, is_call in found.items() if is_call] == ["f", "g"]
    kinds = {x.name: thunk_kind(x) for x in module.entry.instructions.values() if has_thunk(x)}
    assert kinds == {"f": "gemm", "g": "gemm", "h": "custom-call", "n": "kernel"}
    with pytest.raises(ValueError, match="nothing is launched for tuple"):
        thunk_kind(module.entry.root)


def test_what_is_not_launched_orders_nothing_on_its_stream():
    """After the tuple, its stream does not wait for the tuple's other element."""
    module = parse_hlo("""HloModule m
ENTRY e {
  p = f32[8,8] parameter(0)
  a = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = (f32[8,8], f32[8,8]) tuple(a, b)
  n = f32[8,8] negate(b)
  ROOT r = (f32[8,8], (f32[8,8], f32[8,8])) tuple(n, t)
}""")
    assignment = by_hand(module, {"a": 0, "b": 1, "t": 1, "n": 1, "r": 1})
    nodes = module.entry.instructions
    order = tuple(nodes.values())
    ordering = gpu_ordering(module, order, assignment.streams)
    assert not ordering.executes_before(nodes["a"], nodes["n"])


# -- at random ---------------------------------------------------------------------------------


def launched(seed):
    module = random_module(seed, MIXED if seed % 2 else MEMORY)
    draw = random.Random(seed)
    chosen = {x for x in module.entry.instructions.values() if draw.random() < 0.4}
    assignment = assign_streams(module, is_library_call=chosen.__contains__)
    return module, assignment, launch_order(assignment)


@pytest.mark.parametrize("seed", range(30))
def test_launch_order_has_each_instruction_after_what_it_needs(seed):
    module, _, order = launched(seed)
    place = {x: i for i, x in enumerate(order)}
    assert set(order) == set(module.entry.instructions.values())
    assert len(place) == len(order)
    for x in order:
        assert all(place[y] < place[x] for y in (*x.operands, *x.control_predecessors))


@pytest.mark.parametrize("seed", range(30))
def test_library_calls_on_one_stream_form_a_chain_and_the_stream_is_the_lowest(seed):
    module = random_module(seed, MIXED)
    draw = random.Random(seed)
    chosen = {x for x in module.entry.instructions.values() if draw.random() < 0.4}
    chosen = {x for x in chosen if x.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT)}
    assignment = assign_streams(module, is_library_call=chosen.__contains__)
    known = reachability(module.entry)
    seen = []
    for call in [x for x in assignment.streams if x in chosen]:
        forbidden = {assignment.streams[x] for x in seen if not known.connected(x, call)}
        lowest = next(i for i in range(len(seen) + 1) if i not in forbidden)
        assert assignment.streams[call] == lowest
        seen.append(call)


@pytest.mark.parametrize("seed", range(30))
def test_waits_of_thunks_make_all_that_the_launch_order_promises_come_true(seed):
    """What streams and waits enforce holds the ordering that buffers are shared by, and no more."""
    module, assignment, order = launched(seed)
    thunks = thunk_schedule(assignment, order)
    done = {}
    last = {}
    for thunk in thunks.thunks:
        stream = assignment.streams[thunk]
        waited = [last[stream]] if stream in last else []
        done[thunk] = set(waited).union(thunks.waits.get(thunk, ()))
        done[thunk] |= {z for y in list(done[thunk]) for z in done[y]}
        last[stream] = thunk
    ordering = gpu_ordering(module, order, assignment.streams)
    if assignment.count == 1:
        assert not thunks.waits
    for thunk in thunks.thunks:
        assert set(sources_of(thunk)) <= done[thunk]
        promised = {x for x in thunks.thunks if ordering.executes_before(x, thunk)}
        assert promised == done[thunk]
    assert set(thunks.awaited) == {y for waits in thunks.waits.values() for y in waits}


@pytest.mark.parametrize("seed", range(20))
def test_partial_orders_hold_operands_and_control_predecessors(seed):
    module = random_module(seed, MIXED)
    for order in partial_orders(module).values():
        for instruction, before in order.predecessors.items():
            needed = {*instruction.operands, *instruction.control_predecessors}
            assert needed <= set(before)
            assert len(set(before)) == len(before)


def test_sequential_order_of_a_scheduled_module_is_its_schedule():
    module = random_module(3, Recipe(is_scheduled=True))
    order = partial_orders(module)["sequential"]
    sequence = module.schedule.sequence(module.entry)
    ordering = SequentialOrdering(module)
    assert all(a in order.predecessors[b] for a, b in pairwise(sequence))
    assert ordering.predecessors(module.entry) == order.predecessors


def test_thousands_of_independent_products_take_seconds():
    rows = {f"d{i}": ("p", "q") for i in range(3000)}
    rows |= {f"e{i}": (f"d{i}", f"d{(i * 7) % 3000}") for i in range(3000)}
    module = dots(rows)
    assignment = assign_streams(module)
    assert assignment.count >= 3000
    order = launch_order(assignment)
    assert len(launch_partial_order(module.entry, order, assignment.streams).predecessors) == 6002
