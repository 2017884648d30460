"""Plans in protobuf and JSON: XLA's and ours, there and back, and those that fit no module."""

import functools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.random_modules import random_module

from lowtide import compiler
from lowtide.frontend.hlo_proto import (
    read_buffer_assignment,
    read_hlo_proto,
    read_hlo_proto_plan,
    write_buffer_assignment,
    write_hlo_proto,
    write_hlo_proto_plan,
)
from lowtide.frontend.hlo_proto.messages import parse_message, serialize
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.plan_json import read_plan_json
from lowtide.ir import HloProtoError, InputError, LowtideError, Module
from lowtide.ir.buffer import AllocationKind, BufferAssignment, HeapEventKind
from lowtide.report.plan_document import plan_document, self_contained

# -- plans of XLA ------------------------------------------------------------------------------


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]]:
    """Return JAX functions, their arguments, and which of these are donated."""
    jax = pytest.importorskip("jax")
    np, lax, f32 = jax.numpy, jax.lax, jax.numpy.float32

    def update(state, x):
        return {k: v - 0.1 * np.tanh(v @ x) for k, v in state.items()}, x.sum()

    def loop(x):
        def body(carry, i):
            carry = lax.cond(i % 2 == 0, np.sin, lambda y: y @ y, carry)
            return carry, carry[0].sum()

        return lax.scan(body, x, np.arange(4))

    def order(x):
        return np.sort(x), lax.top_k(x, 3), np.cumsum(x)

    def grow(x):
        return lax.while_loop(
            lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1].at[s[0]].set(1)), (0, x)
        )

    a = np.ones((16, 16), f32)
    return {
        "update": (update, ({"v": a, "w": a}, a), (0,)),
        "loop": (loop, (a,), ()),
        "order": (order, (np.arange(40.0),), ()),
        "grow": (grow, (np.zeros(9),), (0,)),
    }


@functools.cache
def compiled(name: str) -> tuple[bytes, bytes, Any]:
    """Return the module of a JAX function as XLA compiled it, its plan, and XLA's figures."""
    jax = pytest.importorskip("jax")
    function, arguments, donated = programs()[name]
    executable = jax.jit(function, donate_argnums=donated).lower(*arguments).compile()
    module = executable.runtime_executable().hlo_modules()[0]
    figures = executable.memory_analysis()
    plan = figures.serialized_buffer_assignment_proto
    return module.as_serialized_hlo_module_proto(), plan, figures


NAMES = ("update", "loop", "order", "grow")


@pytest.mark.parametrize("name", NAMES)
def test_plans_of_xla_are_written_as_they_were_read(name):
    module, blob, figures = compiled(name)
    read = read_hlo_proto(module)
    plan = read_buffer_assignment(blob, read)
    assert write_buffer_assignment(read, plan) == blob
    assert plan.temp_bytes == figures.temp_size_in_bytes
    both = write_hlo_proto_plan(read, plan)
    again = read_hlo_proto_plan(both)
    assert facts(*again) == facts(read, plan)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_of_xla_lie_where_outputs_may(name):
    module, blob, _ = compiled(name)
    read = read_hlo_proto(module)
    plan = read_buffer_assignment(blob, read)
    leaves = [index for index, _ in read.entry.root.shape.leaves()]
    assert len(plan.outputs) == len(leaves)
    aliases = {x.output_index: x for x in read.input_output_aliases}
    for index, place in zip(leaves, plan.outputs, strict=True):
        allocation = plan.allocations[place.allocation]
        assert allocation.maybe_live_out
        if index in aliases:
            alias = aliases[index]
            assert allocation.parameter == (alias.parameter, alias.parameter_index)
            assert allocation.output == index
        else:
            assert allocation.kind is AllocationKind.OUTPUT


def test_what_donation_and_reducers_look_like():
    module, blob, _ = compiled("update")
    read = read_hlo_proto(module)
    plan = read_buffer_assignment(blob, read)
    kinds = [x.kind for x in plan.allocations if x.output is not None]
    assert kinds == [AllocationKind.ARGUMENT] * 2
    inside = [x for x in plan.values if x.site == -1]
    assert inside
    assert all(not x.instruction.parent.is_entry for x in inside)
    kinds = {plan.allocations[x.place.allocation].kind for x in inside}
    assert kinds <= {AllocationKind.THREAD_LOCAL, AllocationKind.CONSTANT}


def test_the_state_of_a_loop_is_one_buffer():
    module, blob, _ = compiled("grow")
    read = read_hlo_proto(module)
    plan = read_buffer_assignment(blob, read)
    phis = [x for x in plan.values if x.is_phi and x.index == (1,)]
    opcodes = {x.instruction.opcode.value for x in phis}
    assert opcodes == {"parameter", "while"}
    assert len({x.buffer for x in phis}) == 1
    assert {plan.allocations[x.place.allocation].parameter for x in phis} == {(0, ())}


def test_text_has_no_ids():
    module, blob, _ = compiled("loop")
    text = parse_hlo(str(read_hlo_proto(module)))
    with pytest.raises(LowtideError, match="ids, which HLO text does not have"):
        read_buffer_assignment(blob, text)


# -- our plans ---------------------------------------------------------------------------------

TWICE = """HloModule twice, input_output_alias={ {0}: (0, {}, may-alias) }

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

layer {
  p = f32[4] parameter(0)
  e = f32[4] exponential(p)
  ROOT t = f32[4] tanh(e)
}

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[4] call(x), to_apply=layer
  z = f32[4] call(y), to_apply=layer
  ROOT r = (s32[], f32[4]) tuple(next, z)
}

ENTRY main {
  w = f32[4] parameter(0)
  zero = s32[] constant(0)
  a = f32[4] call(w), to_apply=layer
  init = (s32[], f32[4]) tuple(zero, a)
  loop = (s32[], f32[4]) while(init), condition=condition, body=body
  out = f32[4] get-tuple-element(loop), index=1
  twice = f32[4] add(out, out)
  ROOT result = (f32[4], f32[4]) tuple(out, twice)
}
"""


def facts(module: Module, plan: BufferAssignment) -> list[object]:
    """Return all that a plan says, by names, whatever numbers its values have."""
    position = {x.number: i for i, x in enumerate(plan.values)}
    buffers: dict[int, list[int]] = {}
    for value in plan.values:
        buffers.setdefault(value.buffer, []).append(position[value.number])
    return [
        [(x.site, x.instruction.name, x.index, x.place, x.is_phi, x.live) for x in plan.values],
        sorted(buffers.values()),
        [
            (x.index, x.kind, x.nbytes, x.colour, x.parameter, x.output, x.maybe_live_out)
            for x in plan.allocations
        ],
        [(x.is_tuple, x.constant and x.constant.name) for x in plan.allocations],
        [(x.computation.name, x.caller and x.caller.name, x.parent) for x in plan.call_sites],
        (plan.outputs, plan.kept_bytes, plan.temp_bytes, str(module)),
    ]


def plan_of(text: str) -> tuple[Module, BufferAssignment]:
    planned = compiler.plan(parse_hlo(text), compiler.PlanOptions("input"))
    return planned.module, planned.assignment


def as_json(module: Module, plan: BufferAssignment) -> str:
    return json.dumps(self_contained(plan_document(plan), module))


def test_our_plans_survive_protobuf_and_json():
    module, plan = plan_of(TWICE)
    runs = [x.computation.name for x in plan.call_sites]
    assert runs.count("layer") == 3
    assert facts(*read_hlo_proto_plan(write_hlo_proto_plan(module, plan))) == facts(module, plan)
    text = as_json(module, plan)
    assert facts(*read_plan_json(text)) == facts(module, plan)
    assert facts(*read_plan_json(text, module)) == facts(module, plan)


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_random_modules_survive_protobuf_and_json(seed):
    planned = compiler.plan(random_module(seed), compiler.PlanOptions("input"))
    module, plan = planned.module, planned.assignment
    assert facts(*read_hlo_proto_plan(write_hlo_proto_plan(module, plan))) == facts(module, plan)
    assert facts(*read_plan_json(as_json(module, plan))) == facts(module, plan)


def test_slices_say_where_made_values_lie():
    module, plan = plan_of(TWICE)
    _, read = read_hlo_proto_plan(write_hlo_proto_plan(module, plan))
    for before, after in zip(plan.call_sites, read.call_sites, strict=True):
        ours = {x.name: places for x, places in before.slices.items()}
        for instruction, places in after.slices.items():
            expected = ours[instruction.name]
            assert all(x in (None, y) for x, y in zip(places, expected, strict=True))


# -- plans that fit no module ------------------------------------------------------------------


def small_plan() -> tuple[Module, Any]:
    """Return a module and the message of its plan: x, two temporaries in the arena, an output."""
    text = """HloModule small, is_scheduled=true
    ENTRY main {
      x = f32[4] parameter(0)
      c = f32[4] constant({1, 2, 3, 4})
      y = f32[4] exponential(x)
      ROOT z = f32[4] add(y, c)
    }"""
    module, plan = plan_of(text)
    proto = read_hlo_proto(write_hlo_proto(module))
    blob = write_buffer_assignment(module, plan, ids_of(module, proto))
    return proto, parse_message("BufferAssignmentProto", blob)


def ids_of(module: Module, proto: Module) -> dict[Any, int]:
    """Return the ids that the instructions of a module have in its protobuf."""
    return {
        instruction: proto.computations[c.name].id << 32
        | proto.computations[c.name].instructions[instruction.name].id
        for c in module.computations.values()
        for instruction in c.instructions.values()
    }


def value_of(message: Any, module: Module, name: str) -> Any:
    number = module.entry.id << 32 | module.entry.instructions[name].id
    found = [x for x in message.logical_buffers if x.defined_at.instruction_id == number]
    assert len(found) == 1
    return found[0]


Damage = Callable[[Any, Module], object]

DAMAGES: dict[str, tuple[Damage, str]] = {
    "unknown instruction": (
        lambda m, _: setattr(m.logical_buffers[0].defined_at, "instruction_id", 999),
        r"logical_buffers\[0\].defined_at.instruction_id: no instruction of the module has id 999",
    ),
    "index of a tuple": (
        lambda m, _: m.logical_buffers[0].defined_at.shape_index.append(0),
        r"logical_buffers\[0\].defined_at.shape_index: .*no element at index \[0\]",
    ),
    "wrong size": (
        lambda m, module: setattr(value_of(m, module, "y"), "size", 12),
        r"size: 12 bytes for y, whose shape f32\[4\]\{0\} has 16",
    ),
    "number used twice": (
        lambda m, _: setattr(m.logical_buffers[1], "id", m.logical_buffers[0].id),
        r"logical_buffers\[1\].id: another value has id",
    ),
    "value without a place": (
        lambda m, _: m.buffer_allocations[0].assigned.pop(),
        r"buffer_allocations: no allocation holds value 0, made by x",
    ),
    "value with two places": (
        lambda m, _: (
            m.buffer_allocations[1].assigned.add().CopyFrom(m.buffer_allocations[0].assigned[0])
        ),
        r"buffer_allocations\[1\].assigned\[2\].logical_buffer_id: value 0, made by x, has two",
    ),
    "behind the end": (
        lambda m, _: setattr(m.buffer_allocations[0], "size", 8),
        r"assigned\[0\].offset: value 0 ends at 16, behind the end of its allocation of 8 bytes",
    ),
    "another size there": (
        lambda m, _: setattr(m.buffer_allocations[0].assigned[0], "size", 8),
        r"buffer_allocations\[0\].assigned\[0\].size: value 0 has 16 bytes",
    ),
    "another type": (
        lambda m, _: setattr(m.buffer_allocations[0].assigned[0], "element_type", 4),
        r"element_type: x has type f32, number 11, found 4",
    ),
    "another memory space": (
        lambda m, _: setattr(m.buffer_allocations[0], "color", 1),
        r"value 0 of memory space 0 lies in one of memory space 1",
    ),
    "index out of order": (
        lambda m, _: setattr(m.buffer_allocations[1], "index", 5),
        r"buffer_allocations\[1\].index: expected 1, found 5",
    ),
    "unknown parameter": (
        lambda m, _: setattr(m.buffer_allocations[0], "parameter_number", 2),
        r"parameter_number: the module has 1 parameters, none of number 2",
    ),
    "no alias": (
        lambda m, _: setattr(m.buffer_allocations[0], "is_parameter_aliased_with_output", True),
        r"no output overwrites parameter 0 at \[\]",
    ),
    "no constant": (
        lambda m, _: setattr(m.buffer_allocations[1], "is_constant", True),
        r"is_constant: no constant lies in",
    ),
    "unknown alias": (
        lambda m, _: m.buffer_aliases.add(source_buffer_id=77),
        r"buffer_aliases\[2\].source_buffer_id: no value has id 77",
    ),
    "unknown peak": (
        lambda m, _: (m.ClearField("peak_buffers"), m.peak_buffers.add(index=9)),
        r"peak_buffers\[0\].index: there are 3 allocations, none of index 9",
    ),
    "unknown value in a trace": (
        lambda m, _: m.heap_simulator_traces.add().events.add(kind=1, buffer_id=44),
        r"heap_simulator_traces\[0\].events\[0\].buffer_id: no value has id 44",
    ),
    "unknown event": (
        lambda m, _: m.heap_simulator_traces.add().events.add(kind=7),
        r"events\[0\].kind: unknown value 7, expected one of 0, 1, 2",
    ),
    "unknown call site": (
        lambda m, _: setattr(m.logical_buffers[0], "call_site", 3),
        r"logical_buffers\[0\].call_site: expected a number from 0 and below 1, found 3",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_first_contradiction_is_named(name):
    module, message = small_plan()
    kinds = [x.is_entry_computation_parameter for x in message.buffer_allocations]
    assert kinds == [True, False, False]
    assert read_buffer_assignment(serialize(message), module).outputs
    damage, expected = DAMAGES[name]
    damage(message, module)
    with pytest.raises(HloProtoError, match=expected):
        read_buffer_assignment(serialize(message), module)


def test_an_output_without_a_place():
    module, message = small_plan()
    number = value_of(message, module, "z").id
    kept = [x for x in message.logical_buffers if x.id != number]
    del message.logical_buffers[:]
    message.logical_buffers.extend(kept)
    del message.buffer_aliases[:]
    for allocation in message.buffer_allocations:
        members = [x for x in allocation.assigned if x.logical_buffer_id != number]
        del allocation.assigned[:]
        allocation.assigned.extend(members)
    with pytest.raises(LowtideError, match=r"output \[\] of small has no place"):
        read_buffer_assignment(serialize(message), module)


def test_traces_and_peaks_survive():
    module, message = small_plan()
    trace = message.heap_simulator_traces.add(whole_module_simulation=True)
    trace.buffer_allocation_index = 2
    trace.events.add(buffer_id=message.logical_buffers[1].id, instruction_name="y")
    trace.events.add(kind=2, buffer_id=2, share_with_canonical_id=1, computation_name="main")
    message.ClearField("peak_buffers")
    message.peak_buffers.add(index=2, logical_buffer_ids=[1, 2])
    plan = read_buffer_assignment(serialize(message), module)
    assert [x.kind for x in plan.heap_traces[0].events] == [
        HeapEventKind.ALLOCATE,
        HeapEventKind.SHARE,
    ]
    assert plan.peak_values == {2: (1, 2)}
    assert write_buffer_assignment(module, plan) == serialize(message)


def test_a_file_without_a_plan_says_so():
    data = write_hlo_proto(parse_hlo(TWICE))
    with pytest.raises(HloProtoError, match="buffer_assignment: there is no plan"):
        read_hlo_proto_plan(data)


def test_every_truncated_plan_is_one_error():
    module, plan = plan_of(TWICE)
    data = write_hlo_proto_plan(module, plan)
    whole = facts(module, plan)
    for end in range(0, len(data), 7):
        try:
            read = read_hlo_proto_plan(data[:end])
        except LowtideError:
            continue
        assert facts(*read) != whole


def test_damaged_plans_raise_only_errors_of_ours(fuzz_seconds):
    module, plan = plan_of(TWICE)
    proto = read_hlo_proto(write_hlo_proto(module))
    blob = write_buffer_assignment(module, plan, ids_of(module, proto))
    draw = random.Random(4)
    refused = 0
    for _ in range(400):
        data = bytearray(blob)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            read_buffer_assignment(bytes(data), proto)
        except LowtideError:
            refused += 1
    assert refused > 200


# -- JSON --------------------------------------------------------------------------------------


def set_in(*path: Any) -> Callable[[Any], None]:
    """Return a function that sets a field of a document: the path to it, then its value."""

    def damage(document: Any) -> None:
        *steps, last, value = path
        for step in steps:
            document = document[step]
        document[last] = value

    return damage


DOCUMENT_DAMAGES = {
    "another kind": (set_in("allocations", 0, "kind", "heap"), r"allocations\[0\].kind: expected"),
    "a string": (set_in("offsets", 1, "offset", "0"), r'offset: expected a number, found "0"'),
    "a flag": (set_in("offsets", 1, "offset", True), r"offset: expected a number, found true"),
    "negative": (set_in("offsets", 1, "offset", -4), r"offset: expected a number from 0.*found -4"),
    "missing": (lambda d: d["offsets"][0].pop("bytes"), r"offsets\[0\]: no field 'bytes'"),
    "no object": (set_in("offsets", 2, 7), r"offsets\[2\]: expected an object"),
    "too long": (set_in("offsets", 0, "bytes", 20), r"20 bytes for w, whose shape f32\[4\]\{0\}"),
    "index": (set_in("offsets", 0, "index", [1]), r"offsets\[0\].index: .*no element"),
    "name": (
        set_in("offsets", 0, "instruction", "q"),
        r"module twice has no instruction q; a plan",
    ),
    "end": (set_in("allocations", 0, "bytes", 8), r"ends at 16, behind the end .* of 8 bytes"),
    "call site": (set_in("offsets", 0, "call_site", 1), r"call_site: .* runs there, w is of main"),
    "call path": (set_in("offsets", 0, "call_path", ["a"]), r"call_path: call site 0 is the entry"),
    "live": (set_in("offsets", 0, "live", [3, 1]), r"live: expected the first and the last"),
    "kept": (set_in("kept_bytes", 10**9), r"kept_bytes: the arena has \d+ bytes"),
    "parameter": (
        set_in("allocations", 0, "parameter", {"number": 1, "index": []}),
        r"allocations\[0\].parameter.number: the module has 1 parameters",
    ),
    "no allocations": (lambda d: d.pop("allocations"), r"no field 'allocations'"),
    "no module": (lambda d: d.pop("scheduled_module"), "no scheduled_module: name the module too"),
}


@pytest.mark.parametrize("name", DOCUMENT_DAMAGES)
def test_a_json_plan_names_its_first_contradiction(name):
    module, plan = plan_of(TWICE)
    document = json.loads(as_json(module, plan))
    damage, expected = DOCUMENT_DAMAGES[name]
    damage(document)
    with pytest.raises(InputError, match=expected):
        read_plan_json(json.dumps(document), file="plan.json")


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '"x"', "[" * 100_000])
def test_what_is_no_plan_at_all(text):
    with pytest.raises(InputError, match=r"^plan\.json: "):
        read_plan_json(text, file="plan.json")
