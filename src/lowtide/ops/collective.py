"""Communication between devices, and with the host over channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from lowtide.ir.attributes import Channel, Collective, CollectivePermute
from lowtide.ir.errors import ShapeError
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ListReplicaGroups
from lowtide.ir.shape import UNBOUNDED, ProgramShape, Shape, tuple_shape
from lowtide.ops.checks import agree, array, in_range, one_or_tuple, plain, token, tuple_of
from lowtide.ops.control_flow import infer_element_1
from lowtide.ops.definition import UNLIMITED, OpDefinition
from lowtide.ops.quantities import Cost, bytes_touched, moves_all

Shapes = Sequence[Shape]
Called = Sequence[ProgramShape]

# -- groups of devices -------------------------------------------------------------------------


def _check_groups(attributes: Collective) -> None:
    """Check that no device takes part twice, and that no group is empty."""
    if not isinstance(attributes.replica_groups, ListReplicaGroups):
        return
    seen: set[int] = set()
    for group in attributes.replica_groups.groups:
        if not group:
            raise ShapeError("replica_groups has an empty group")
        for device in group:
            if device in seen:
                raise ShapeError(f"replica_groups names device {device} twice")
            seen.add(device)


def _verify_groups(result: Shape, operands: Shapes, attributes: Collective, called: Called) -> None:
    _check_groups(attributes)


def _verify_permute(
    result: Shape, operands: Shapes, attributes: CollectivePermute, called: Called
) -> None:
    least = min([x for pair in attributes.source_target_pairs for x in pair], default=0)
    if least < 0:
        raise ShapeError(f"source_target_pairs names device {least}; numbers go from 0 on")
    if attributes.slice_sizes:
        return  # several slices may travel between the same devices
    for side, what in enumerate(("source", "target")):
        devices = [pair[side] for pair in attributes.source_target_pairs]
        if len(set(devices)) != len(devices):
            raise ShapeError(f"source_target_pairs names a {what} device twice")


# -- all-gather and reduce-scatter: one dimension grows or shrinks by the size of the group ----


def _results(result: Shape, operands: Shapes) -> tuple[Shape, ...]:
    """Return the result of each operand: a lone one stands for itself, several form a tuple."""
    if len(operands) == 1 and not result.is_tuple:
        return (result,)
    results = tuple_of(result, "the result")
    if len(results) != len(operands):
        raise ShapeError(f"{len(operands)} operands need as many results, not {plain(result)}")
    return results


def _check_group(replicated: Shape, sharded: Shape, dimension: int | None) -> None:
    """Check that `replicated` is `sharded` times a whole number along `dimension`."""
    array(replicated, "the whole")
    array(sharded, "the part")
    if dimension is None:
        raise ShapeError("the operation needs a dimension")
    in_range(dimension, sharded, "dimension")
    if replicated.element_type is not sharded.element_type or replicated.rank != sharded.rank:
        raise ShapeError(f"{plain(replicated)} and {plain(sharded)} differ in type or rank")
    for i, (whole, part) in enumerate(zip(replicated.dimensions, sharded.dimensions, strict=True)):
        if UNBOUNDED in (whole, part) or whole == part:
            continue
        if i != dimension or not part or whole % part:
            raise ShapeError(
                f"dimension {i} of {plain(replicated)} must "
                + (
                    f"be a multiple of that of {plain(sharded)}"
                    if i == dimension
                    else f"equal that of {plain(sharded)}"
                )
            )


def _verify_all_gather(
    result: Shape, operands: Shapes, attributes: Collective, called: Called
) -> None:
    _check_groups(attributes)
    for operand, gathered in zip(operands, _results(result, operands), strict=True):
        _check_group(gathered, operand, attributes.dimension)


def _verify_all_gather_start(
    result: Shape, operands: Shapes, attributes: Collective, called: Called
) -> None:
    elements = tuple_of(result, "the result", 2)
    sources = (elements[0],) if len(operands) == 1 else tuple_of(elements[0], "element 0")
    if len(sources) != len(operands) or not all(
        agree(a, b, exact=True) for a, b in zip(sources, operands, strict=True)
    ):
        raise ShapeError(f"element 0 must be the operands, not {plain(elements[0])}")
    _verify_all_gather(elements[1], operands, attributes, called)


def _verify_reduce_scatter(
    result: Shape, operands: Shapes, attributes: Collective, called: Called
) -> None:
    _check_groups(attributes)
    for operand, scattered in zip(operands, _results(result, operands), strict=True):
        _check_group(operand, scattered, attributes.dimension)
    _check_reducer(called[0])


def _check_reducer(reducer: ProgramShape) -> None:
    if len(reducer.parameters) != 2:
        raise ShapeError(f"to_apply must take 2 parameters, but takes {len(reducer.parameters)}")


# -- operations that keep the shapes -----------------------------------------------------------


def _infer_same(operands: Shapes, attributes: Any, called: Called) -> Shape:
    if not operands:
        raise ShapeError("the operation needs at least one operand")
    return one_or_tuple(operands)


def _verify_all_reduce(
    result: Shape, operands: Shapes, attributes: Collective, called: Called
) -> None:
    _check_groups(attributes)
    for number, operand in enumerate(operands):
        array(operand, f"operand {number}")
    _check_reducer(called[0])


def _infer_all_to_all(operands: Shapes, attributes: Collective, called: Called) -> Shape:
    if not operands:
        raise ShapeError("all-to-all needs at least one operand")
    if attributes.dimension is None:
        return tuple_shape(list(operands))
    for operand in operands:
        in_range(attributes.dimension, array(operand, "an operand"), "dimension")
    return one_or_tuple(operands)


def _infer_ragged_all_to_all(operands: Shapes, attributes: Collective, called: Called) -> Shape:
    data, output = array(operands[0], "operand 0"), array(operands[1], "operand 1")
    if data.element_type is not output.element_type or data.dimensions[1:] != output.dimensions[1:]:
        raise ShapeError(f"{plain(data)} and {plain(output)} may differ in dimension 0 only")
    return output


def _infer_permute(operands: Shapes, attributes: CollectivePermute, called: Called) -> Shape:
    if not operands:
        raise ShapeError("collective-permute needs at least one operand")
    if attributes.slice_sizes:
        if len(operands) != 4:
            raise ShapeError(f"the form with slice_sizes takes 4 operands, not {len(operands)}")
        return operands[1]
    return one_or_tuple(operands)


def _verify_permute_start(
    result: Shape, operands: Shapes, attributes: CollectivePermute, called: Called
) -> None:
    elements = tuple_of(result, "the result", 2)
    expected = _infer_permute(operands, attributes, called)
    if not agree(elements[1], expected, exact=True):
        raise ShapeError(f"element 1 must be {plain(expected)}, not {plain(elements[1])}")
    _verify_permute(result, operands, attributes, called)


# -- channels ----------------------------------------------------------------------------------


def _verify_send(result: Shape, operands: Shapes, attributes: Channel, called: Called) -> None:
    token(operands[1], "operand 1")
    if not agree(_transfer(result)[0], operands[0], exact=True):
        raise ShapeError(f"element 0 of the result must be {plain(operands[0])}")


def _transfer(result: Shape) -> tuple[Shape, ...]:
    """Return the elements of (data, context, token); backends choose the context's shape."""
    elements = tuple_of(result, "the result", 3)
    if len(elements) != 3:
        raise ShapeError(f"the result must be (data, context, token[]), not {plain(result)}")
    token(elements[2], "element 2 of the result")
    return elements


def _verify_recv(result: Shape, operands: Shapes, attributes: Channel, called: Called) -> None:
    token(operands[0], "the operand")
    _transfer(result)


def _infer_send_done(operands: Shapes, attributes: Channel, called: Called) -> Shape:
    return token(tuple_of(operands[0], "the operand", 3)[2], "element 2 of the operand")


def _infer_recv_done(operands: Shapes, attributes: Channel, called: Called) -> Shape:
    elements = tuple_of(operands[0], "the operand", 3)
    return tuple_shape([elements[0], token(elements[2], "element 2 of the operand")])


# -- cost --------------------------------------------------------------------------------------


def _all_reduce_cost(
    result: Shape, operands: Shapes, attributes: Collective, called: Sequence[Cost]
) -> Cost:
    """Return one flop per element, as with two replicas."""
    flops = sum([leaf.element_count for _, leaf in result.leaves()])
    return Cost(flops, 0, bytes_touched(result, operands))


_moved: Final = partial(OpDefinition, cost=moves_all, declared=True)
"""The row of an operation that passes data on, and whose shape is part of HLO's text."""

_in_groups: Final = partial(_moved, arity=(1, UNLIMITED), attributes=Collective)
"""The row of an operation on arrays that the devices of each group run together."""

OPERATIONS: Final = (
    _in_groups(
        Opcode.ALL_GATHER,
        "the operands of all devices of the group, one after another along a dimension",
        verify=_verify_all_gather,
    ),
    _in_groups(
        Opcode.ALL_GATHER_START,
        "starts an all-gather: (operand, result)",
        verify=_verify_all_gather_start,
        has_side_effect=True,
    ),
    _moved(
        Opcode.ALL_GATHER_DONE,
        "the result of an asynchronous all-gather",
        infer=infer_element_1,
        has_side_effect=True,
    ),
    _in_groups(
        Opcode.ALL_REDUCE,
        "the operands combined over all devices of the group",
        calls=("to_apply",),
        infer=_infer_same,
        verify=_verify_all_reduce,
        cost=_all_reduce_cost,
    ),
    _in_groups(
        Opcode.ALL_REDUCE_START,
        "starts an all-reduce",
        calls=("to_apply",),
        infer=_infer_same,
        verify=_verify_all_reduce,
        cost=_all_reduce_cost,
        has_side_effect=True,
    ),
    _moved(
        Opcode.ALL_REDUCE_DONE,
        "the result of an asynchronous all-reduce",
        infer=_infer_same,
        has_side_effect=True,
    ),
    _in_groups(
        Opcode.REDUCE_SCATTER,
        "the combined operands of the group, each device keeping its part of a dimension",
        calls=("to_apply",),
        verify=_verify_reduce_scatter,
    ),
    _in_groups(
        Opcode.ALL_TO_ALL,
        "part i of each device's operand sent to device i of the group",
        infer=_infer_all_to_all,
        verify=_verify_groups,
    ),
    _moved(
        Opcode.RAGGED_ALL_TO_ALL,
        "an all-to-all of parts of given offsets and sizes, written into operand 1",
        arity=(6, 6),
        attributes=Collective,
        infer=_infer_ragged_all_to_all,
        verify=_verify_groups,
        in_place=((1, ()),),
    ),
    _in_groups(
        Opcode.COLLECTIVE_BROADCAST,
        "the operand of the first device of the group, on all of them",
        infer=_infer_same,
        verify=_verify_groups,
    ),
    _moved(
        Opcode.COLLECTIVE_PERMUTE,
        "the operand of the source device, zero where there is none",
        arity=(1, UNLIMITED),
        attributes=CollectivePermute,
        infer=_infer_permute,
        verify=_verify_permute,
    ),
    _moved(
        Opcode.COLLECTIVE_PERMUTE_START,
        "starts a collective-permute: (operand, result, contexts)",
        arity=(1, UNLIMITED),
        attributes=CollectivePermute,
        verify=_verify_permute_start,
        has_side_effect=True,
    ),
    _moved(
        Opcode.COLLECTIVE_PERMUTE_DONE,
        "the result of an asynchronous collective-permute",
        infer=infer_element_1,
        has_side_effect=True,
    ),
    _moved(
        Opcode.SEND,
        "starts sending operand 0 over a channel: (data, context, token)",
        arity=(2, 2),
        attributes=Channel,
        verify=_verify_send,
        exact_type=True,
        has_side_effect=True,
    ),
    _moved(
        Opcode.SEND_DONE,
        "the token of a finished send",
        attributes=Channel,
        infer=_infer_send_done,
        exact_type=True,
        has_side_effect=True,
    ),
    _moved(
        Opcode.RECV,
        "starts receiving from a channel: (data, context, token)",
        attributes=Channel,
        verify=_verify_recv,
        has_side_effect=True,
    ),
    _moved(
        Opcode.RECV_DONE,
        "what was received, and a token",
        attributes=Channel,
        infer=_infer_recv_done,
        exact_type=True,
        has_side_effect=True,
    ),
)
