"""Questions that the figures of a memory report leave open, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lowtide.analysis.call_graph import executed_computations
from lowtide.analysis.live_range import LiveRanges
from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import CustomCall
from lowtide.ir.opcode import COLLECTIVES
from lowtide.ir.partitioning import first_sharded
from lowtide.ir.shape import HOST_MEMORY
from lowtide.ops.backend_config import known_trip_count
from lowtide.records import dataclass


def caveats(
    module: Module,
    ranges: LiveRanges,
    left_out: int = 0,
    *,
    was_scheduled: bool,
    was_fused: bool = False,
    counts_scratch: bool = False,
) -> tuple[str, ...]:
    """Return what to keep in mind when reading the figures of a module.

    `left_out` is the number of called computations without figures of their own. A module that was
    scheduled when it came is taken for optimized; one that `was_fused` went through our passes.
    `counts_scratch` says that what kernels need while they run is in the figures.
    """
    found = []
    if not (was_scheduled or was_fused):
        found.append(
            "not optimized yet: every broadcast, iota and elementwise result counts as a buffer; "
            "fusion would remove most of them"
        )
    if module.num_partitions > 1:
        found.append(_devices(module))
    found.append(
        "reshapes and transposes that the layouts make free share the buffer of their operand; "
        "operations that may write over an operand do so where it is not needed later"
    )
    shapes = {instruction.shape for instruction in ranges.flat.instructions}
    if any(_is_on_host(shape) for shape in shapes):
        found.append("arrays in host memory are counted apart, in `memory_spaces`")
    if any(_asks_for_host(instruction) for instruction in ranges.flat.instructions):
        found.append("not offloaded yet: arrays that are to lie with the host count where they are")
    if any(_is_unpacked(shape) for shape in shapes):
        found.append("elements of less than 8 bits count one byte each where no layout packs them")
    if any(shape.is_dynamic for shape in shapes):
        found.append("dynamic dimensions count with their upper bounds")
    instructions = ranges.flat.instructions
    calls = dict.fromkeys([x for x in map(_foreign_target, instructions) if x])
    if calls and not counts_scratch:
        found.append(f"what custom calls take while they run is not known: {_listed(calls)}")
    collectives = dict.fromkeys([x.opcode.value for x in instructions if x.opcode in _COLLECTIVES])
    if collectives:
        found.append(f"what devices take to exchange data is not known: {_listed(collectives)}")
    if left_out:
        found.append(f"{left_out} deeply nested computations have no figures of their own")
    if not counts_scratch:
        found.append(
            "scratch memory of kernels is not counted; it is in the plan of what is compiled"
        )
    found.append(
        "bound_bytes is for these instructions and copies in any order: fusing otherwise, or "
        "running some again, may need less"
    )
    return tuple(found)


def _devices(module: Module) -> str:
    if first_sharded(module) is not None:
        return (
            "not partitioned yet: sizes are those of the arrays as written, which may be whole "
            f"arrays of {module.num_partitions} devices"
        )
    return f"partitioned: these are the figures of each of {module.num_partitions} devices"


def time_caveats(module: Module) -> tuple[str, ...]:
    """Return what to keep in mind when reading times of a module."""
    claims, found = trip_count_claims(module), []
    if claims.claimed:
        found.append(
            "times take the trip counts that the module claims, which nothing confirms: "
            + _listed(claims.claimed)
        )
    if claims.contradicted:
        found.append(
            "times take the trip counts that the module claims, although the loops run otherwise: "
            + _listed(claims.contradicted)
        )
    if claims.unknown:
        found.append(
            f"in times loops of unknown length count as run once: {_listed(claims.unknown)}"
        )
    return tuple(found)


_LISTED: Final = 3


def _listed(names: Iterable[str]) -> str:
    """A few names, and how many there are more."""
    known = list(names)
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{', '.join(known[:_LISTED])}{more}"


_COLLECTIVES: Final = COLLECTIVES | {Opcode.INFEED, Opcode.OUTFEED, Opcode.RECV, Opcode.SEND}

_WITHOUT_WORK: Final = frozenset(
    {"AllocateBuffer", "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding"}
)
"""Custom calls that compute nothing."""


def _foreign_target(instruction: Instruction) -> str:
    """The target of a custom call that computes something, "" for any other instruction."""
    attributes = instruction.attributes
    if not isinstance(attributes, CustomCall) or attributes.target in _PLACEMENTS | _WITHOUT_WORK:
        return ""
    return attributes.target


_PLACEMENTS: Final = frozenset({"annotate_device_placement", "MoveToHost"})
"""Custom calls that ask for a memory; nothing moves before XLA's host offloading has run."""


def _asks_for_host(instruction: Instruction) -> bool:
    attributes = instruction.attributes
    return isinstance(attributes, CustomCall) and attributes.target in _PLACEMENTS


def _is_unpacked(shape: Shape) -> bool:
    return any(
        1 < leaf.element_type.bits < 8
        and (leaf.layout is None or not leaf.layout.element_size_in_bits)
        for _, leaf in shape.leaves()
    )


def _is_on_host(shape: Shape) -> bool:
    return any(leaf.memory_space == HOST_MEMORY for _, leaf in shape.leaves())


@dataclass(frozen=True, slots=True)
class ClaimedTripCount:
    """Names of loops, in order: whose count is only claimed, claimed wrongly, or not known."""

    claimed: tuple[str, ...]
    contradicted: tuple[str, ...]
    unknown: tuple[str, ...]


def trip_count_claims(module: Module) -> ClaimedTripCount:
    """Return the loops that run in a module and whose trip counts nothing here confirms."""
    claimed, contradicted, unknown = [], [], []
    for computation in executed_computations(module.entry):
        for x in computation.instructions.values():
            if x.opcode is not Opcode.WHILE:
                continue
            from lowtide.analysis.loop_trip_count import trip_count  # Many programs have no loop.

            known, found = known_trip_count(x), trip_count(x)
            if known is None:
                unknown += [] if found else [x.name]
            elif found is None:
                claimed.append(x.name)
            elif found.count != known:
                contradicted.append(x.name)
    return ClaimedTripCount(tuple(claimed), tuple(contradicted), tuple(unknown))
