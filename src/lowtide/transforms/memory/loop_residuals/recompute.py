"""Residuals that a later loop computes again, step by step, instead of reading them from a stack.

A loop over layers or over time, and the loop of its gradient, are two computations: the first
stacks what the second reads, one slice for each step. The second can compute some of that from
other stacks, from what both are given, or from the state with which a step started. It need not be
stacked. That is gradient checkpointing (T. Chen, B. Xu, C. Zhang, C. Guestrin, 2016, "Training deep
nets with sublinear memory cost"), for programs in which nobody asked for it.
"""

from __future__ import annotations

from typing import Final

from lowtide.ir import Instruction, Module
from lowtide.passes.interface import Pass
from lowtide.transforms.control_flow.loops import loops_of
from lowtide.transforms.control_flow.while_dead_carries import remove_dead_carries
from lowtide.transforms.memory.loop_residuals.stacks import Walk, residuals_of
from lowtide.transforms.memory.stacked_loops import STACKED_LOOPS


def recompute_loop_residuals(module: Module, *, contractions: bool = False) -> int:
    """Compute again in later loops what loops stack for them; return how many stacks went.

    A stack goes where all that is done with it is that later loops, each of a known number of
    steps, take slices at indices that follow the steps, forward or in reverse. What is stacked in
    its place takes the least bytes that there are, by a minimum cut; values stay the same, bit for
    bit. Contractions, convolutions, sorts, scatters and loops are computed again only with
    `contractions`; then what a step starts with is often all that is stacked.
    """
    changes = 0
    for _ in range(_MOST_ROUNDS):
        made = _recompute_all(module, contractions=contractions)
        if not made:
            break
        changes += made
    return changes


_MOST_ROUNDS: Final = 4
"""How often a choice is looked at again: it may make another one possible."""


def _recompute_all(module: Module, *, contractions: bool) -> int:
    found = [(loop.instruction, Walk.of(loop)) for loop in loops_of(module)]
    walks = {x: walk for x, walk in found if walk is not None}
    changes = sum([_recompute(x, walks, contractions=contractions) for x in list(walks)])
    if changes:
        remove_dead_carries(module)
    return changes


def _recompute(x: Instruction, walks: dict[Instruction, Walk], *, contractions: bool) -> int:
    residuals = residuals_of(walks[x], walks)
    if residuals is None:
        return 0
    # Few loops stack what later ones read, and the others load none of this.
    from lowtide.transforms.memory.loop_residuals.choice import choose
    from lowtide.transforms.memory.loop_residuals.lift import drop_unused, lift
    from lowtide.transforms.memory.loop_residuals.matches import matches_of
    from lowtide.transforms.memory.loop_residuals.rewrite import rewrite

    lifted = lift(residuals)
    matches = [matches_of(residuals, reader) for reader in residuals.readers]
    choice = choose(residuals, matches, contractions=contractions)
    changes = 0 if choice is None else rewrite(residuals, matches, choice)
    drop_unused(lifted)
    if not changes:
        return 0
    for walk in (residuals.walk, *[reader.walk for reader in residuals.readers]):
        again = Walk.of(walk.loop)
        assert again is not None
        walks[walk.loop.instruction] = again
    return changes


PASSES: Final = (
    Pass(
        "loop-residual-recompute",
        recompute_loop_residuals,
        "Computes again in later loops what loops would stack for them, where that takes less.",
        before=STACKED_LOOPS,
        meanings=(("contractions", "also contractions, convolutions, sorts, scatters and loops"),),
    ),
)
