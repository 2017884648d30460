"""Ways to damage a HLO protobuf: on the wire, and field by field."""

import random
from typing import Any

from lowtide.frontend.hlo_proto.messages import message_classes
from lowtide.ir import Opcode

NUMBERS = (0, 1, 2, 3, 7, 63, 255, 2**16, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
STRINGS = (
    "",
    "add",
    "while",
    "tuple",
    "parameter",
    "fusion",
    "x y",
    "\u00e9",
    "a" * 300,
    "async-start",
)
OPCODES = [*[opcode.value for opcode in Opcode], "equal-to"]


def damage_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return `data` with bits flipped, bytes changed, cut off, repeated or spliced with `other`."""
    damaged = bytearray(data)
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del damaged[rng.randrange(len(damaged)) :]
    elif kind == 2:
        start = rng.randrange(len(damaged))
        first = rng.randrange(len(other))
        damaged[start : start + rng.randint(0, 40)] = other[first : first + rng.randint(1, 60)]
    elif kind == 3:
        start = rng.randrange(len(damaged))
        damaged[start:start] = damaged[start : start + rng.randint(1, 40)] * rng.randint(1, 3)
    elif kind == 4:
        start = rng.randrange(len(damaged))
        del damaged[start : start + rng.randint(1, 20)]
    else:
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 127, 128, 255, 10, 18, 26))
    return bytes(damaged)


def damage_fields(rng: random.Random, data: bytes, kind: str = "HloModuleProto") -> bytes:
    """Return a message with a few fields changed, removed, repeated or swapped."""
    message = message_classes()[kind].FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _damage_one(rng, _somewhere(rng, message))
    return bytes(message.SerializeToString())


def _somewhere(rng: random.Random, message: Any) -> Any:
    """Return a message in the tree, found by a walk that stops at random."""
    while True:
        below = []
        for field, value in message.ListFields():
            if field.message_type is not None:
                below += list(value) if field.is_repeated else [value]
        if not below or rng.random() < 0.15:
            return message
        message = rng.choice(below)


def _damage_one(rng: random.Random, message: Any) -> None:
    fields = message.DESCRIPTOR.fields
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present) if present and rng.random() < 0.8 else rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif field.message_type is not None:
        _damage_messages(rng, message, field)
    elif field.is_repeated:
        _damage_list(rng, getattr(message, field.name), field)
    else:
        setattr(message, field.name, _value(rng, field))


def _damage_messages(rng: random.Random, message: Any, field: Any) -> None:
    if not field.is_repeated:
        getattr(message, field.name).SetInParent()
        return
    values = getattr(message, field.name)
    if not values or rng.random() < 0.3:
        values.add()
        return
    kind, i = rng.randrange(3), rng.randrange(len(values))
    if kind == 0:
        del values[i]
    elif kind == 1:
        values.add().CopyFrom(values[i])
    else:
        j = rng.randrange(len(values))
        kept = type(values[i])()
        kept.CopyFrom(values[i])
        values[i].CopyFrom(values[j])
        values[j].CopyFrom(kept)


def _damage_list(rng: random.Random, values: Any, field: Any) -> None:
    kind = rng.randrange(3)
    if not values or kind == 0:
        values.append(_value(rng, field))
    elif kind == 1:
        del values[rng.randrange(len(values))]
    else:
        values[rng.randrange(len(values))] = _value(rng, field)


def _value(rng: random.Random, field: Any) -> Any:
    if field.type == field.TYPE_STRING:
        return rng.choice(OPCODES) if field.name == "opcode" else rng.choice(STRINGS)
    if field.type == field.TYPE_BYTES:
        return bytes([rng.randrange(256) for _ in range(rng.randrange(9))])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    if field.type in (field.TYPE_INT32, field.TYPE_UINT32):
        signed = field.type == field.TYPE_INT32
        return rng.choice([x for x in NUMBERS if x < 2**31] + ([-1, -(2**31)] if signed else []))
    signed = field.type == field.TYPE_INT64
    return rng.choice([*NUMBERS, *((-1, -5, -(2**63), -(2**62)) if signed else ())])
