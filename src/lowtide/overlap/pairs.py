"""Collectives in two halves: what starts one, and what waits for it, with others in between.

    r = all-reduce(x)          s = ((x), r) async-start(x), calls={all-reduce}
                               r = async-done(s)

What is sent stands in the start too, and so lives until the second half. All-gathers and permutes
have starts of their own that do so; all others are wrapped. The order is as before, each second
half right behind the first one.
"""

from __future__ import annotations

from typing import Final

from lowtide.analysis.call_graph import executed_computations
from lowtide.ir import Computation, Instruction, Module, Opcode, Schedule, tuple_shape
from lowtide.ir.attributes import Async, Parameter
from lowtide.spmd.wire import KINDS


def make_pairs(module: Module) -> int:
    """Split the collectives of a scheduled module, which is changed; return how many were.

    Those with control edges stay, and those that are in two halves by themselves.
    """
    assert module.schedule is not None
    sequences = dict(module.schedule.sequences)
    count = 0
    for computation in executed_computations(module.entry):
        order: list[Instruction] = []
        for x in sequences[computation]:
            if not _is_whole(x):
                order.append(x)
                continue
            count += 1
            if x.opcode in _HALVES:
                order += _in_own_halves(x)
                continue
            wrapped = _wrapped(module, x)
            sequences[wrapped] = tuple(wrapped.instructions.values())
            order += _in_halves(x, wrapped)
        sequences[computation] = tuple(order)
    module.schedule = Schedule(sequences)
    return count


def started(x: Instruction) -> Instruction | None:
    """Return the collective that an instruction starts; None where it starts none."""
    if x.opcode in _STARTS:
        return x
    if x.opcode is not Opcode.ASYNC_START:
        return None
    root = x.called_computations[0].root
    return root if root.opcode in KINDS else None


def is_collective(x: Instruction) -> bool:
    """Return whether an instruction sends, and waits for what it receives."""
    return x.opcode in KINDS and x.opcode not in _STARTS


_HALVES: Final = {
    Opcode.ALL_GATHER: (Opcode.ALL_GATHER_START, Opcode.ALL_GATHER_DONE),
    Opcode.COLLECTIVE_PERMUTE: (Opcode.COLLECTIVE_PERMUTE_START, Opcode.COLLECTIVE_PERMUTE_DONE),
}
"""The halves of those that have some in which their operands stand."""

_STARTS: Final = frozenset({Opcode.ALL_REDUCE_START, *[start for start, _ in _HALVES.values()]})


def _is_whole(x: Instruction) -> bool:
    return is_collective(x) and not x.has_control_edges and not _is_wrapped(x)


def _is_wrapped(x: Instruction) -> bool:
    """Whether a collective is all that a computation has besides its parameters."""
    others = [y for y in x.parent.instructions.values() if y.opcode is not Opcode.PARAMETER]
    return others == [x] and not x.parent.is_entry


def _wrapped(module: Module, x: Instruction) -> Computation:
    """Return a new computation that is one collective."""
    made = module.add_computation(f"{x.name}.wrapped")
    given = tuple(
        [
            made.add(Opcode.PARAMETER, y.shape, (), Parameter(number), (), f"{x.name}.{number}")
            for number, y in enumerate(x.operands)
        ]
    )
    root = made.add(x.opcode, x.shape, given, x.attributes, x.called_computations)
    root.set_metadata(x.raw_metadata)
    made.root = root
    return made


def _in_own_halves(x: Instruction) -> list[Instruction]:
    """Put the halves of an operation that has some in its place, and return them."""
    first, second = _HALVES[x.opcode]
    sent = [y.shape for y in x.operands]
    shape = tuple_shape([sent[0] if len(sent) == 1 else tuple_shape(sent), x.shape])
    start = x.parent.add(first, shape, x.operands, x.attributes, (), f"{x.name}-start")
    done = x.parent.add(second, x.shape, (start,), name=x.name)
    return _replaced(x, start, done)


def _in_halves(x: Instruction, wrapped: Computation) -> list[Instruction]:
    """Put what runs a computation of a collective in its place, and return both halves."""
    shape = tuple_shape([tuple_shape([y.shape for y in x.operands]), x.shape])
    start = x.parent.add(
        Opcode.ASYNC_START, shape, x.operands, Async(), (wrapped,), f"{x.name}-start"
    )
    done = x.parent.add(Opcode.ASYNC_DONE, x.shape, (start,), Async(), (wrapped,), x.name)
    return _replaced(x, start, done)


def _replaced(x: Instruction, start: Instruction, done: Instruction) -> list[Instruction]:
    start.set_metadata(x.raw_metadata)
    done.set_metadata(x.raw_metadata)
    done.set_annotations(x.annotations)
    if x.is_root:
        x.parent.root = done
    x.replace_all_uses_with(done)
    x.parent.remove(x)
    return [start, done]
