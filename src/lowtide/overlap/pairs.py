"""Collectives in two halves: what starts one, and what waits for it, with others in between.

    r = all-reduce(x)          s = ((x), r) async-start(x), calls={all-reduce}
                               r = async-done(s)

All kinds have this one form: what is sent stands in the start too, and so lives until the second
half. The order is as before, each second half right behind the first one.
"""

from __future__ import annotations

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
            wrapped = _wrapped(module, x)
            sequences[wrapped] = tuple(wrapped.instructions.values())
            order += _split(x, wrapped)
            count += 1
        sequences[computation] = tuple(order)
    module.schedule = Schedule(sequences)
    return count


def wrapped_collective(start: Instruction) -> Instruction | None:
    """Return the collective that an async-start runs; None of any other instruction."""
    if start.opcode is not Opcode.ASYNC_START:
        return None
    root = start.called_computations[0].root
    return root if root.opcode in KINDS else None


def is_collective(x: Instruction) -> bool:
    """Return whether an instruction sends, and waits for what it receives."""
    return x.opcode in KINDS and x.opcode not in _STARTS


_STARTS = frozenset(
    {Opcode.ALL_GATHER_START, Opcode.ALL_REDUCE_START, Opcode.COLLECTIVE_PERMUTE_START}
)


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


def _split(x: Instruction, wrapped: Computation) -> list[Instruction]:
    """Put the two halves of a collective in its place, and return them."""
    computation = x.parent
    shape = tuple_shape([tuple_shape([y.shape for y in x.operands]), x.shape])
    start = computation.add(
        Opcode.ASYNC_START, shape, x.operands, Async(), (wrapped,), f"{x.name}-start"
    )
    done = computation.add(Opcode.ASYNC_DONE, x.shape, (start,), Async(), (wrapped,), x.name)
    start.set_metadata(x.raw_metadata)
    done.set_metadata(x.raw_metadata)
    done.set_annotations(x.annotations)
    if x.is_root:
        computation.root = done
    x.replace_all_uses_with(done)
    computation.remove(x)
    return [start, done]
