"""The instructions that must not run a second time."""

from __future__ import annotations

from typing import Final

from lowtide.host_calls.instructions import is_foreign_call, is_python_call
from lowtide.ir import Computation, Instruction, Opcode
from lowtide.ir.attributes import Collective, CollectivePermute
from lowtide.ir.opcode import ENDS
from lowtide.ops.effects import has_side_effect

_GIVEN: Final = frozenset({Opcode.PARAMETER, Opcode.CONSTANT})
"""What is there without running; another run would give nothing new."""

_INSIDE: Final = frozenset({Opcode.CALL, Opcode.CONDITIONAL})
"""What works on the values of its caller: how long these live is up to what it runs."""

_IN_PARTS: Final = ENDS | {Opcode.ASYNC_START, Opcode.COPY_START}
"""Operations that begin in one instruction and end in another one, once each."""

Memo = dict[Computation, bool]
"""Whether computations have an instruction that must not run again."""


def runs_once(instruction: Instruction, memo: Memo) -> bool:
    """Whether an instruction, or anything that it calls, must not run a second time.

    Another run would have another effect (outfeed, send, custom calls that say so), another result
    (rng), call a function of the user once more, or need partners that do not run again
    (collectives). Tokens order such things, so what makes one runs once, too. Calls and
    conditionals do, since graphs have them in two nodes; what they run may run parts of itself
    again, and loops may run again as a whole.
    """
    if instruction.opcode in _GIVEN or instruction.opcode in _INSIDE or _is_single(instruction):
        return True
    return any(_has_single(callee, memo) for callee in instruction.called_computations)


def _is_single(instruction: Instruction) -> bool:
    if instruction.opcode in _IN_PARTS:
        return True
    if isinstance(instruction.attributes, Collective | CollectivePermute):
        return True
    if any(shape.is_token for _, shape in instruction.shape.leaves()):
        return True
    if is_python_call(instruction) or is_foreign_call(instruction):
        return True
    is_alone = instruction.opcode is Opcode.CUSTOM_CALL or not instruction.called_computations
    return is_alone and has_side_effect(instruction)


def _has_single(root: Computation, memo: Memo) -> bool:
    """Whether a computation or one that it calls has such an instruction; each is asked once."""
    stack = [root]
    while stack:
        current = stack[-1]
        if current in memo:
            stack.pop()
            continue
        inside = list(current.instructions.values())
        called = dict.fromkeys([c for x in inside for c in x.called_computations])
        waiting = [callee for callee in called if callee not in memo]
        if waiting:
            stack += waiting
            continue
        single = any(_is_single(x) for x in inside if x.opcode not in _GIVEN)
        memo[current] = single or any(memo[callee] for callee in called)
        stack.pop()
    return memo[root]
