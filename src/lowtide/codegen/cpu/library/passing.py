"""Operations whose results are their operands: collectives in which each device is alone.

Beside these there are copies in two halves, custom calls that mark a value for a compiler,
and the numbers of the device, which are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.codegen.cpu.library.copies import Copy, copies_code
from lowtide.codegen.elements.operands import leaves
from lowtide.codegen.kernel import KernelPlan
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import Collective, CollectivePermute, CustomCall
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.ir.opcode import OVER_PARTITIONS
from lowtide.ir.replica_groups import device_count
from lowtide.llvm.target import Target
from lowtide.ops.custom_call import ANNOTATING_TARGETS

Sources: TypeAlias = "list[int | None]"
"""For each array of the result the number of the operands' array that it equals; None: zeros."""


def plan_passing(instruction: Instruction, target: Target) -> KernelPlan | None:
    """Return the plan of an operation that passes on arrays.

    Raises UnsupportedOpError where other devices or the host would have to take part.
    """
    sources = _SOURCES[instruction.opcode](instruction)
    if sources is None:
        return None
    given = [x for operand in instruction.operands for x in leaves(operand.shape)]
    results = leaves(instruction.shape)
    for source, result in zip(sources, results, strict=True):
        if source is not None and given[source].dimensions != result.dimensions:
            raise _several(instruction)
    count = len(given)
    copies = [
        Copy(source, None if source is None else given[source], count + number, result)
        for number, (source, result) in enumerate(zip(sources, results, strict=True))
    ]
    return KernelPlan(lambda: copies_code(copies))


def _several(instruction: Instruction) -> UnsupportedOpError:
    reason = (
        "it exchanges values with other devices, but by its replica_count and num_partitions the "
        "module runs on one, in native code and in the evaluator"
    )
    return unsupported(instruction, reason)


# -- collectives -----------------------------------------------------------------------------------


def require_alone(instruction: Instruction) -> None:
    """Raise UnsupportedOpError unless device 0 is the only one of its group in a collective."""
    attributes = instruction.attributes_as(Collective)
    module = instruction.parent.module
    replicas, partitions = module.replica_count, module.num_partitions
    each = 1
    if attributes.channel_id is None:
        everyone = replicas
    elif instruction.opcode in OVER_PARTITIONS:
        everyone = partitions
    else:
        everyone = replicas * partitions
        each = 1 if attributes.use_global_device_ids else partitions
    if device_count(attributes.replica_groups):
        groups = attributes.replica_groups.as_lists()
        everyone = sum([len(group) * each for group in groups if 0 in group])
    if everyone != 1:
        raise _several(instruction)


def _given(instruction: Instruction) -> int:
    return sum([len(leaves(x.shape)) for x in instruction.operands])


def _all(instruction: Instruction) -> Sources:
    require_alone(instruction)
    return list(range(_given(instruction)))


def _sent_and_received(instruction: Instruction) -> Sources:
    require_alone(instruction)
    return [*range(_given(instruction))] * 2


def _permuted(instruction: Instruction) -> Sources:
    attributes = instruction.attributes_as(CollectivePermute)
    if attributes.slice_sizes:
        raise unsupported(instruction, "no form with slice_sizes is run; the plain one is")
    sources = [source for source, target in attributes.source_target_pairs if target == 0]
    if any(sources):
        raise _several(instruction)
    count = _given(instruction)
    return list(range(count)) if sources else [None] * count


def _permuted_start(instruction: Instruction) -> Sources:
    received = _permuted(instruction)
    rest = len(leaves(instruction.shape)) - 2 * len(received)
    return [*range(len(received)), *received, *[None] * rest]


# -- others ----------------------------------------------------------------------------------------


def _zeros(instruction: Instruction) -> Sources:
    return [None] * len(leaves(instruction.shape))


def _copied(instruction: Instruction) -> Sources | None:
    """A copy of a tuple is one of its arrays; one of an array is a loop."""
    return list(range(_given(instruction))) if instruction.shape.is_tuple else None


def _copied_tuple(instruction: Instruction) -> Sources | None:
    """A copy of a tuple; arrays are copied by loops."""
    return None if instruction.shape.is_array else list(range(_given(instruction)))


def _copied_start(instruction: Instruction) -> Sources:
    """The copy, the array itself, and a context."""
    count = _given(instruction)
    rest = len(leaves(instruction.shape)) - 2 * count
    return [*range(count), *range(count), *[None] * rest]


def _custom_call(instruction: Instruction) -> Sources | None:
    name = instruction.attributes_as(CustomCall).target
    if name in ANNOTATING_TARGETS and _given(instruction) == len(leaves(instruction.shape)):
        return list(range(_given(instruction)))
    if name in _NEW and instruction.shape.is_array:
        return _zeros(instruction)
    if name in _READERS and not leaves(instruction.shape):
        return []
    reason = f'no native code for the target "{name}"'
    raise unsupported(
        instruction,
        f"{reason}, and no foreign function is registered for it (jax.ffi.register_ffi_target); "
        "the evaluator may know it (lowtide run --reference)",
    )


def _host(instruction: Instruction) -> Sources:
    reason = "no host program runs beside native code or the evaluator; use parameters"
    raise unsupported(instruction, reason)


_NEW: Final = frozenset({"AllocateBuffer", "CreateBuffer"})
"""Targets that make an array of any contents; it gets zeros."""

_READERS: Final = frozenset({"dce_sink"})
"""Targets that only keep what they read alive, and have no result."""

_SOURCES: Final[dict[Opcode, Callable[[Instruction], Sources | None]]] = {
    Opcode.ALL_GATHER: _all,
    Opcode.ALL_GATHER_START: _sent_and_received,
    Opcode.ALL_REDUCE: _all,
    Opcode.ALL_REDUCE_START: _all,
    Opcode.ALL_TO_ALL: _all,
    Opcode.COLLECTIVE_BROADCAST: _all,
    Opcode.COLLECTIVE_PERMUTE: _permuted,
    Opcode.COLLECTIVE_PERMUTE_START: _permuted_start,
    Opcode.COPY: _copied,
    Opcode.COPY: _copied_tuple,
    Opcode.COPY_START: _copied_start,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.INFEED: _host,
    Opcode.OUTFEED: _host,
    Opcode.PARTITION_ID: _zeros,
    Opcode.RECV: _host,
    Opcode.RECV_DONE: _host,
    Opcode.REDUCE_SCATTER: _all,
    Opcode.REPLICA_ID: _zeros,
    Opcode.SEND: _host,
    Opcode.SEND_DONE: _host,
}

PASSING: Final = tuple(_SOURCES)
"""The operations for which that is the template."""
