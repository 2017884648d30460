"""The table of operations: one definition per opcode, read by all that ask what an op means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lowtide.ir.opcode import Opcode
from lowtide.ops import (
    collective,
    contraction,
    control_flow,
    convolution,
    custom_call,
    data_movement,
    elementwise,
    indexing,
    linear_algebra,
    random,
    reduction,
    sorting,
)
from lowtide.ops.definition import OpDefinition, arity_text

FAMILIES: Final = (
    elementwise,
    contraction,
    convolution,
    reduction,
    data_movement,
    indexing,
    control_flow,
    collective,
    random,
    sorting,
    linear_algebra,
    custom_call,
)


def _table() -> dict[Opcode, OpDefinition]:
    rows: dict[Opcode, OpDefinition] = {}
    for family in FAMILIES:
        for definition in family.OPERATIONS:
            assert definition.opcode not in rows, f"{definition.opcode} is defined twice"
            rows[definition.opcode] = definition
    missing = [opcode for opcode in Opcode if opcode not in rows]
    assert not missing, f"no definition of {missing}"
    return {opcode: rows[opcode] for opcode in Opcode}


TABLE: Final[Mapping[Opcode, OpDefinition]] = MappingProxyType(_table())
"""The definition of each opcode, in alphabetical order."""

_FAMILY: Final = {
    definition.opcode: family.__name__.rpartition(".")[2].replace("_", " ")
    for family in FAMILIES
    for definition in family.OPERATIONS
}


def family_of(opcode: Opcode) -> str:
    """Return the family of an operation, such as "data movement": its file, in words."""
    return _FAMILY[opcode]


def describe_table() -> list[dict[str, str]]:
    """Return one row of words per opcode, for people: what it takes, calls and yields."""
    return [_describe(definition) for definition in TABLE.values()]


def _describe(definition: OpDefinition) -> dict[str, str]:
    return {
        "opcode": definition.opcode.value,
        "family": family_of(definition.opcode),
        "operands": arity_text(definition.arity),
        "attributes": _attribute_names(definition),
        "calls": ", ".join(definition.calls),
        "shape": "inferred" if definition.infer is not None else "declared",
        "flags": ", ".join(_flags(definition)),
        "summary": definition.summary,
    }


def _attribute_names(definition: OpDefinition) -> str:
    return ", ".join(getattr(definition.attributes, "__dataclass_fields__", {}))


def _flags(definition: OpDefinition) -> list[str]:
    flags = {
        "elementwise": definition.elementwise,
        "commutative": definition.commutative,
        "in place": bool(definition.in_place),
        "side effect": definition.has_side_effect,
    }
    return [name for name, is_set in flags.items() if is_set]
