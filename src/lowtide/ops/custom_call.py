"""Operations that reach outside of the program: custom calls, feeds, domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from lowtide.ir.attributes import CustomCall, Domain, Infeed, Outfeed
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.instruction import Instruction
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import TOKEN, ProgramShape, Shape
from lowtide.ops.aliasing import check_aliasing
from lowtide.ops.checks import agree, plain, token, tuple_of
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, unknown_cost
from lowtide.records.late import late_pattern

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

ANNOTATING_TARGETS: Final = frozenset(
    {
        "AssumeGatherIndicesInBound",
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "Pin",
        "PinToDevice",
        "PinToDeviceSram",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "ShardBarrierFrom",
        "ShardBarrierTo",
        "Sharding",
        "Unpin",
        "__xla_internal_call_marker_after",
        "__xla_internal_call_marker_before",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.PropagationBarrier",
        "xla.sdy.ShardingGroup",
    }
)
"""Targets of custom calls that only say where or how a value should lie."""

_OPTION: Final = late_pattern(r"(\w+) = (-?\d+|true|false)")


def call_options(instruction: Instruction) -> Mapping[str, str]:
    """Return the options in the backend_config: a character, a number, "true" or "false" each."""
    found = {}
    for name, text in _OPTION.findall(instruction.annotations.backend_config):
        is_character = text.isdigit() and name not in ("low", "high")
        found[name] = chr(int(text)) if is_character else text
    return found


def options_text(options: Mapping[str, str]) -> str:
    """Return the backend_config that says options of one character each, as LAPACK's calls have."""
    return "{" + ", ".join([f"{name} = {ord(x)} : ui8" for name, x in options.items()]) + "}"


def lapack_target(routine: str, kind: ElementType) -> str:
    """Return the target of a call of LAPACK, by its name for real matrices, "" for other types."""
    if kind not in LAPACK_LETTERS:
        return ""
    name = _COMPLEX_NAMES.get(routine, routine) if kind.is_complex else routine
    return f"lapack_{LAPACK_LETTERS[kind]}{name}_ffi"


LAPACK_LETTERS: Final[Mapping[ElementType, str]] = {
    ElementType.F32: "s",
    ElementType.F64: "d",
    ElementType.C64: "c",
    ElementType.C128: "z",
}
"""By the element type of matrices the letter in the names of LAPACK's routines."""

_COMPLEX_NAMES: Final = {"orgqr": "ungqr", "syevd": "heevd"}


def spectrum_triangle(instruction: Instruction) -> Literal["L", "U"]:
    """Return which triangle of its matrices XLA's "Eigh" reads: the first of its options says so.

    The others are whether values are sorted (they always are here), steps and tolerance.
    """
    lower = instruction.annotations.backend_config.partition(",")[0]
    return "U" if lower.strip() == "0" else "L"


def _verify_custom_call(
    result: Shape, operands: Shapes, attributes: CustomCall, called: Called
) -> None:
    check_aliasing(result, operands, attributes.output_to_operand_aliasing)
    layouts = attributes.operand_layouts
    if layouts is None:
        return
    if len(layouts) != len(operands):
        raise ShapeError(f"{len(operands)} operands need as many layouts, not {len(layouts)}")
    for number, (operand, layout) in enumerate(zip(operands, layouts, strict=True)):
        if not agree(operand, layout, exact=True):
            raise ShapeError(
                f"operand {number} is {plain(operand)}, its layout for {plain(layout)}"
            )


def _verify_infeed(result: Shape, operands: Shapes, attributes: Infeed, called: Called) -> None:
    token(operands[0], "the operand")
    elements = tuple_of(result, "the result", 2)
    if len(elements) != 2:
        raise ShapeError(f"the result must be (data, token[]), not {plain(result)}")
    token(elements[1], "element 1 of the result")


def _infer_outfeed(operands: Shapes, attributes: Outfeed, called: Called) -> Shape:
    return TOKEN


def _verify_outfeed(result: Shape, operands: Shapes, attributes: Outfeed, called: Called) -> None:
    token(operands[1], "operand 1")
    if not agree(operands[0], attributes.shape, exact=True):
        raise ShapeError(
            f"operand 0 is {plain(operands[0])}, outfeed_shape {plain(attributes.shape)}"
        )


def _infer_domain(operands: Shapes, attributes: Domain, called: Called) -> Shape:
    return operands[0]


def _leaves_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    moved = sum([x.leaf_nbytes for x in operands]) + result.leaf_nbytes
    return Cost(bytes_accessed=moved)


OPERATIONS: Final = (
    OpDefinition(
        Opcode.CUSTOM_CALL,
        "a function outside of HLO, named by its target",
        arity=(0, UNLIMITED),
        attributes=CustomCall,
        calls=("called_computations",),
        calls_arity=(0, UNLIMITED),
        verify=_verify_custom_call,
        cost=unknown_cost,
        declared=True,
        factors="computing.custom_call",
    ),
    OpDefinition(
        Opcode.INFEED,
        "data from the host's queue, and a token",
        attributes=Infeed,
        verify=_verify_infeed,
        cost=_leaves_cost,
        declared=True,
        has_side_effect=True,
    ),
    OpDefinition(
        Opcode.OUTFEED,
        "operand 0 sent to the host's queue",
        arity=(2, 2),
        attributes=Outfeed,
        infer=_infer_outfeed,
        verify=_verify_outfeed,
        cost=_leaves_cost,
        declared=True,
        exact_type=True,
        has_side_effect=True,
    ),
    OpDefinition(
        Opcode.DOMAIN,
        "the operand, at a border between regions of different sharding",
        attributes=Domain,
        infer=_infer_domain,
        exact_type=True,
    ),
)
