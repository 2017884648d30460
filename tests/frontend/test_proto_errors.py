"""Malformed HLO protobufs: each is rejected at the field that is bad."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.frontend.proto_cases import SMALL, instruction, message_of

from lowtide.frontend.hlo_proto import read_hlo_proto, write_hlo_module_proto
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloProtoError, UnsupportedOpError

Damage = Callable[[Any], None]


def set_field(path: str, value: Any) -> Damage:
    """Return a function that sets a field of the instruction, e.g. `a.shape.element_type`."""

    def damage(message: Any) -> None:
        name, *fields = path.split(".")
        target = message if name == "module" else instruction(message, name)
        for field in fields[:-1]:
            target = getattr(target, field)
        if isinstance(value, list):
            getattr(target, fields[-1])[:] = value
        else:
            setattr(target, fields[-1], value)

    return damage


def clear_field(path: str) -> Damage:
    def damage(message: Any) -> None:
        name, field = path.split(".")
        target = message if name == "module" else instruction(message, name)
        target.ClearField(field)

    return damage


def add_literal_bytes(message: Any) -> None:
    instruction(message, "c").literal.f32s.append(b"abcd")


def cycle_of_computations(message: Any) -> None:
    instruction(message, "k").called_computation_ids[:] = [1]


def second_parameter(message: Any) -> None:
    instruction(message, "p").parameter_number = 1


def bad_schedule(message: Any) -> None:
    sequence = message.schedule.sequences.add(key=1)
    sequence.value.instruction_ids.extend([1 << 32, 1 << 32])


def short_schedule(message: Any) -> None:
    message.schedule.sequences.add(key=1).value.instruction_ids.append(1 << 32)


def sharding_of_many(message: Any) -> None:
    sharding = instruction(message, "a").sharding
    sharding.type = 3
    sharding.tile_assignment_dimensions.extend([2**30, 2**30])
    sharding.iota_reshape_dims.append(2**60)


def deep_origin(message: Any) -> None:
    element = instruction(message, "a").original_value.elements.add()
    element.shape_index.extend([0] * 5000)


def wide_origin(message: Any) -> None:
    element = instruction(message, "a").original_value.elements.add()
    element.shape_index.append(2**40)


A = "computations[1].instructions[2]"
C = "computations[1].instructions[1]"
K = "computations[1].instructions[3]"
BAD: dict[str, tuple[Damage, str, str]] = {
    "opcode": (set_field("a.opcode", "ad"), f"{A}.opcode", "did you mean 'add'"),
    "operand": (
        set_field("a.operand_ids", [0, 77]),
        f"{A}.operand_ids[1]",
        "no instruction with id 77",
    ),
    "operand cycle": (
        set_field("a.operand_ids", [0, (1 << 32) + 4]),
        f"{A}.operand_ids[1]",
        "before",
    ),
    "self control": (
        set_field("a.control_predecessor_ids", [2]),
        f"{A}.control_predecessor_ids[0]",
        "no instruction",
    ),
    "arity": (set_field("a.operand_ids", [0]), f"{A}.operand_ids", "takes 2 operands, found 1"),
    "duplicate id": (set_field("a.id", 0), f"{A}.id", "p has the same id"),
    "duplicate name": (set_field("a.name", "x"), f"{A}.name", "another instruction is named 'x'"),
    "empty name": (set_field("a.name", ""), f"{A}.name", "empty"),
    "no shape": (clear_field("a.shape"), f"{A}.shape", "missing"),
    "negative size": (
        set_field("a.shape.dimensions", [-3]),
        f"{A}.shape.dimensions[0]",
        "found -3",
    ),
    "absurd size": (set_field("a.shape.dimensions", [2**62]), f"{A}.shape.dimensions[0]", "2**63"),
    "element type": (set_field("a.shape.element_type", 99), f"{A}.shape.element_type", "99"),
    "layout": (
        set_field("a.shape.layout.minor_to_major", [1]),
        f"{A}.shape.layout.minor_to_major",
        "permutation",
    ),
    "literal": (add_literal_bytes, f"{C}.literal.f32s", "expected 3 elements, found 4"),
    "no literal": (clear_field("c.literal"), f"{C}.literal", "needs this field"),
    "literal shape": (set_field("c.literal.shape.dimensions", [4]), f"{C}.literal.shape", "f32[4]"),
    "no callee": (
        set_field("k.called_computation_ids", [9]),
        f"{K}.called_computation_ids[0]",
        "id 9",
    ),
    "call cycle": (cycle_of_computations, f"{K}.called_computation_ids[0]", "before this"),
    "calls": (
        set_field("k.called_computation_ids", [0, 0]),
        f"{K}.called_computation_ids",
        "found 2",
    ),
    "parameters": (second_parameter, "computations[1].instructions", "0, 1, ..."),
    "entry": (set_field("module.entry_computation_id", 5), "entry_computation_id", "id 5"),
    "no computations": (clear_field("module.computations"), "computations", "at least one"),
    "schedule": (bad_schedule, "schedule.sequences[0].value.instruction_ids[1]", "twice"),
    "short schedule": (
        short_schedule,
        "schedule.sequences[0].value.instruction_ids",
        "4 instructions are not",
    ),
    "sharding": (sharding_of_many, f"{A}.sharding.tile_assignment_dimensions[0]", "devices"),
    "deep origin": (deep_origin, f"{A}.original_value.elements[0].shape_index", "100"),
    "wide origin": (wide_origin, f"{A}.original_value.elements", "positions"),
    "payload": (
        set_field("a.metadata.metadata_payload.id", 3),
        f"{A}.metadata.metadata_payload.id",
        "0 payloads",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_messages_are_rejected_at_the_bad_field(name: str) -> None:
    damage, position, part = BAD[name]
    message = message_of(SMALL)
    damage(message)
    with pytest.raises(HloProtoError) as caught:
        read_hlo_proto(message.SerializeToString())
    assert caught.value.position == position
    assert part in caught.value.message


def test_without_a_program_shape_the_entry_gives_the_layout() -> None:
    message = message_of(SMALL)
    message.ClearField("host_program_shape")
    assert str(read_hlo_proto(message.SerializeToString())) == str(parse_hlo(SMALL))


def test_every_cut_of_a_module_is_rejected_quickly() -> None:
    data = write_hlo_module_proto(parse_hlo(SMALL))
    whole = set()
    for end in range(len(data)):
        try:
            read_hlo_proto(data[:end])
            whole.add(end)
        except HloProtoError as error:
            assert error.message
    assert len(whole) < 16


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "at least one computation"),
        (b"hello world, this is no protobuf", ""),
        (bytes(64), "0 is not the tag of a field"),
        (b"\x1a\xff\xff\xff\xff\x0f", "too early"),
        (b"\x0a\x02\xff\xfe", "not UTF-8"),
        (b"\xff" * 40, "more than 10 bytes"),
        (b"\x23" * 1000, "groups"),
    ],
)
def test_bytes_that_are_no_module(data: bytes, part: str) -> None:
    with pytest.raises(HloProtoError) as caught:
        read_hlo_proto(data)
    assert part in caught.value.message


def test_shapes_that_nest_without_end_are_rejected() -> None:
    data = b""
    for _ in range(2000):
        data = b"\x10\x0d" + (b"\x22" + varint(len(data)) + data if data else b"")
    data = b"\x0a\x01a\x12\x05tuple\x1a" + varint(len(data)) + data
    data = b"\x12" + varint(len(data)) + data
    with pytest.raises(HloProtoError, match="nest deeper than 100"):
        read_hlo_proto(b"\x1a" + varint(len(data)) + data)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_text_that_protobuf_cannot_hold_is_named() -> None:
    module = parse_hlo(SMALL.replace('op_name="sum"', 'op_name="\\377"'))
    with pytest.raises(HloProtoError) as caught:
        write_hlo_module_proto(module)
    assert caught.value.position == f"{A}.metadata.op_name"


def test_a_literal_that_does_not_fill_its_shape_is_not_supported() -> None:
    message = message_of(SMALL)
    constant = instruction(message, "c")
    for shape in (constant.shape, constant.literal.shape):
        shape.is_dynamic_dimension[:] = [True]
    constant.literal.dynamic_sizes.append(2)
    with pytest.raises(UnsupportedOpError, match="fill"):
        read_hlo_proto(message.SerializeToString())
