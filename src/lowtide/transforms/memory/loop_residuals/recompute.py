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
        after="""
HloModule m

forward {
  b = (s32[], f32[4], f32[4,4]) parameter(0)
  i.1 = s32[] get-tuple-element(b), index=0
  one = s32[] constant(1)
  next = s32[] add(i.1, one)
  x = f32[4] get-tuple-element(b), index=1
  y = f32[4] sine(x)
  xs = f32[4,4] get-tuple-element(b), index=2
  x.1 = f32[1,4] reshape(x)
  zero = s32[] constant(0)
  xs.1 = f32[4,4] dynamic-update-slice(xs, x.1, i.1, zero)
  ROOT tuple.7 = (s32[], f32[4], f32[4,4]) tuple(next, y, xs.1)
}

more {
  c = (s32[], f32[4], f32[4,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(4)
  ROOT go = pred[] compare(i, n), direction=LT
}

backward {
  b.1 = (s32[], f32[4], f32[4,4]) parameter(0)
  i.2 = s32[] get-tuple-element(b.1), index=0
  one.1 = s32[] constant(1)
  next.1 = s32[] add(i.2, one.1)
  d = f32[4] get-tuple-element(b.1), index=1
  xs.2 = f32[4,4] get-tuple-element(b.1), index=2
  three = s32[] constant(3)
  k = s32[] subtract(three, i.2)
  zero.1 = s32[] constant(0)
  dynamic-slice = f32[1,4] dynamic-slice(xs.2, k, zero.1), dynamic_slice_sizes={1,4}
  reshape = f32[4] reshape(dynamic-slice)
  x.4 = f32[1,4] reshape(reshape)
  y.4 = f32[4] sine(reshape)
  y.5 = f32[1,4] reshape(y.4)
  xy = f32[1,4] multiply(x.4, y.5)
  xy.1 = f32[4] reshape(xy)
  d.1 = f32[4] multiply(d, xy.1)
  ROOT tuple.5 = (s32[], f32[4], f32[4,4]) tuple(next.1, d.1, xs.2)
}

more.1 {
  c.1 = (s32[], f32[4], f32[4,4]) parameter(0)
  i.3 = s32[] get-tuple-element(c.1), index=0
  n.1 = s32[] constant(4)
  ROOT go.1 = pred[] compare(i.3, n.1), direction=LT
}

ENTRY main {
  start = s32[] constant(0)
  x.3 = f32[4] parameter(0)
  none = f32[] constant(0)
  stack = f32[4,4] broadcast(none), dimensions={}
  tuple.6 = (s32[], f32[4], f32[4,4]) tuple(start, x.3, stack)
  loop = (s32[], f32[4], f32[4,4]) while(tuple.6), condition=more, body=forward
  y.3 = f32[4] get-tuple-element(loop), index=1
  xs.3 = f32[4,4] get-tuple-element(loop), index=2
  tuple.4 = (s32[], f32[4], f32[4,4]) tuple(start, y.3, xs.3)
  loop.1 = (s32[], f32[4], f32[4,4]) while(tuple.4), condition=more.1, body=backward
  ROOT d.2 = f32[4] get-tuple-element(loop.1), index=1
}
""",
        meanings=(("contractions", "also contractions, convolutions, sorts, scatters and loops"),),
    ),
)
