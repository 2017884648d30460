"""Targets of updates in place: what may be read of the array that is overwritten."""

from __future__ import annotations

from lowtide.fusion.cluster import Cluster
from lowtide.ir import Opcode
from lowtide.ops.overwriting import reads_target_elsewhere


def would_read_target(producer: Cluster, update: Cluster) -> bool:
    """Whether an update with a loop that it reads would read what it may have overwritten."""
    hero = update.hero
    if hero is None:
        return False
    count = 1 if hero.opcode is not Opcode.SCATTER else len(hero.operands) // 2
    members = producer.members | update.members
    for number, target in enumerate(hero.operands[:count]):
        is_read = target in producer.inputs or hero.operands.count(target) > 1
        if is_read and reads_target_elsewhere(hero, number, {target: True}, (), members):
            return True
    return False
