"""Random numbers: stateless generators, the stateful ones, and the identity of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lowtide.ir.attributes import Rng, RngBitGenerator, RngGetAndUpdateState
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape, array_shape
from lowtide.ops.checks import agree, array, plain, same_type, scalar, tuple_of
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

_DISTRIBUTIONS: Final = ("rng_uniform", "rng_normal")
_ALGORITHMS: Final = ("rng_default", "rng_three_fry", "rng_philox")


def _verify_rng(result: Shape, operands: Shapes, attributes: Rng, called: Called) -> None:
    array(result, "the result")
    if attributes.distribution not in _DISTRIBUTIONS:
        raise ShapeError(f"distribution {attributes.distribution!r} is none of {_DISTRIBUTIONS}")
    for number, operand in enumerate(operands[:2]):
        scalar(operand, f"operand {number}")
        if not same_type(operand.element_type, result.element_type):
            raise ShapeError(f"operand {number} is {plain(operand)}, the result {plain(result)}")


def _verify_bit_generator(
    result: Shape, operands: Shapes, attributes: RngBitGenerator, called: Called
) -> None:
    state = array(operands[0], "the state")
    if attributes.algorithm not in _ALGORITHMS:
        raise ShapeError(f"algorithm {attributes.algorithm!r} is none of {_ALGORITHMS}")
    if result.is_array:
        return
    elements = tuple_of(result, "the result", 2)
    if len(elements) != 2 or not agree(elements[0], state, exact=True):
        raise ShapeError(f"the result must be ({plain(state)}, numbers), not {plain(result)}")
    array(elements[1], "the numbers")


def _infer_state(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return array_shape(ElementType.U64, (2,))


def _infer_device_number(operands: Shapes, attributes: Any, called: Called) -> Shape:
    return array_shape(ElementType.U32)


def _rng_cost(result: Shape, operands: Shapes, attributes: Any, called: Sequence[Cost]) -> Cost:
    numbers = sum([leaf.element_count for _, leaf in result.leaves()])
    return Cost(0, numbers, bytes_touched(result, operands))


OPERATIONS: Final = (
    OpDefinition(
        Opcode.RNG,
        "random numbers, uniform in [a, b) or normal with mean a and deviation b",
        arity=(2, UNLIMITED),
        attributes=Rng,
        verify=_verify_rng,
        cost=_rng_cost,
        declared=True,
        has_side_effect=True,
    ),
    OpDefinition(
        Opcode.RNG_BIT_GENERATOR,
        "random bits that follow from a state, and the next state",
        attributes=RngBitGenerator,
        verify=_verify_bit_generator,
        cost=_rng_cost,
        declared=True,
    ),
    OpDefinition(
        Opcode.RNG_GET_AND_UPDATE_STATE,
        "the device's random state, which then advances",
        arity=(0, 0),
        attributes=RngGetAndUpdateState,
        infer=_infer_state,
        cost=moves_all,
        declared=True,
        has_side_effect=True,
    ),
    OpDefinition(
        Opcode.PARTITION_ID,
        "the number of the partition that runs the program",
        arity=(0, 0),
        infer=_infer_device_number,
        cost=moves_all,
    ),
    OpDefinition(
        Opcode.REPLICA_ID,
        "the number of the replica that runs the program",
        arity=(0, 0),
        infer=_infer_device_number,
        cost=moves_all,
    ),
)
