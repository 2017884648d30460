"""Marks for the partitioner, which mean nothing in a program for one device."""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.passes.interface import Pass, example
from lowtide.passes.rewriting import Rewriter, Rule, rewrite

MARKERS: Final = frozenset(
    {
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "ShardBarrierFrom",
        "ShardBarrierTo",
        "Sharding",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "xla.sdy.PropagationBarrier",
    }
)
"""Custom calls that return their operand and say how to shard it."""

_GROUP: Final = "xla.sdy.ShardingGroup"
"""A custom call without a result, whose side effect is to shard several values alike."""


def remove_shardings(module: Module) -> int:
    """Replace sharding markers and domains by their operands; return how many changes were made.

    Only in a module for one partition. Shardings said of other instructions stay: nothing reads
    them, and what comes back to the framework may want them.
    """
    if module.num_partitions != 1:
        return 0
    changes = _remove_groups(module)
    return changes + rewrite(module, [_UNWRAP]).total()


def _remove_groups(module: Module) -> int:
    removed = 0
    for computation in module.computations.values():
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.CUSTOM_CALL or x.users or x.is_root:
                continue
            if x.attributes_as(CustomCall).target == _GROUP:
                computation.remove(x)
                removed += 1
    return removed


def _unwrap(x: Instruction, at: Rewriter) -> Instruction | None:
    if x.opcode is Opcode.CUSTOM_CALL and x.attributes_as(CustomCall).target not in MARKERS:
        return None
    if len(x.operands) != 1 or x.operands[0].shape is not x.shape:
        return None
    return x.operands[0]


_UNWRAP: Final = Rule("unwrap-marker", (Opcode.CUSTOM_CALL, Opcode.DOMAIN), _unwrap)

PASSES: Final = (
    Pass(
        "sharding-remover",
        remove_shardings,
        "Replaces marks for the partitioner by what they mark, in programs for one device.",
        *example(
            """
HloModule m

ENTRY main {
  x = f32[4] parameter(0)
- y = f32[4] negate(x)
- marked = f32[4] custom-call(y), custom_call_target="Sharding", sharding={replicated}
- ROOT z = f32[4] add(marked, x)
+ y = f32[4] negate(x), sharding={replicated}
+ ROOT z = f32[4] add(y, x)
}
"""
        ),
    ),
)
