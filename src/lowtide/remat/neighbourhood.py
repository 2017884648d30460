"""Large neighbourhood search: undo a part of a plan, repair it greedily, keep what is better.

After P. Shaw, "Using Constraint Programming and Local Search Methods to Solve Vehicle Routing
Problems", 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from lowtide.remat.recompute import Recompute, RematPlan

_TOLERANCE: Final = 0.002
"""A plan that is dearer by up to this share may still be gone on with."""
_SAMPLE: Final = 200
_TRIAL: Final = 20_000
"""Steps that could be looked at in the time that a trial takes beside them."""
_PATIENCE: Final = 30
_PATIENCE_PER_GAP: Final = 1
"""Trials in vain after which a search ends: so many, and so many for each gap."""

_REACHES: Final = (20, 60, 400)

_SEED: Final = 1

Change = Callable[[Recompute, RematPlan, int, Random], int]
"""Changes the flags of a plan for a cap; returns the cap to drop more for."""


def searched(
    recompute: Recompute, start: RematPlan, cap: int, work: int, stop: Callable[[], bool]
) -> RematPlan:
    """Return the cheapest plan within `cap` bytes met near `start`, which is within it.

    The search ends after `work` steps looked at, of which each trial counts as some at least, after
    as many trials in vain as leave nothing new to expect, or when `stop` says so. It is the same
    each time.
    """
    random = Random(_SEED)
    current = best = start
    end = recompute.work + work
    improved = 0
    patience = _PATIENCE + _PATIENCE_PER_GAP * len(start.dropped)
    for trial in range(work // _TRIAL):
        if recompute.work + trial * _TRIAL // 2 >= end or trial - improved > patience or stop():
            break
        found = _neighbour(recompute, current, cap, random)
        if found is None:
            continue
        if found.ticks <= current.ticks * (1 + _TOLERANCE * random.random()):
            current = found
        if found.ticks < best.ticks:
            best, improved = found, trial
    return best


def _neighbour(recompute: Recompute, plan: RematPlan, cap: int, random: Random) -> RematPlan | None:
    change = random.choice(_CHANGES)
    reach = random.choice(_REACHES) if random.random() < _RARELY else plan.reach
    trial = replace(plan, dropped=plan.dropped.copy(), reach=reach)
    target = change(recompute, trial, cap, random)
    seed = random.choice((0, random.randrange(1, 1 << 30)))
    if not recompute.fit(trial.dropped, target, reach, seed):
        return None
    return replace(trial, ticks=recompute.prune(trial.dropped, cap, reach))


_RARELY: Final = 0.1


def _hold_near(recompute: Recompute, plan: RematPlan, cap: int, random: Random) -> int:
    """Hold some of the gaps that end near one of them."""
    gaps = recompute.dropped_gaps(plan.dropped)
    if len(gaps):
        ends = recompute.base.ends
        radius = random.choice((30, 100, 300))
        near = gaps[np.abs(ends[gaps] - ends[random.choice(gaps.tolist())]) < radius]
        share = random.choice((0.2, 0.5, 1.0))
        plan.dropped[[gap for gap in near.tolist() if random.random() < share]] = 0
    return cap


def _hold_some(recompute: Recompute, plan: RematPlan, cap: int, random: Random) -> int:
    """Hold a few gaps anywhere."""
    gaps = recompute.dropped_gaps(plan.dropped).tolist()
    plan.dropped[random.sample(gaps, min(len(gaps), random.choice((1, 2, 4, 8, 16))))] = 0
    return cap


def _tighten(recompute: Recompute, plan: RematPlan, cap: int, random: Random) -> int:
    """Drop more than is needed."""
    return int(cap * (1 - random.choice((0.005, 0.01, 0.02, 0.05, 0.1))))


def _drop_cheap(recompute: Recompute, plan: RematPlan, cap: int, random: Random) -> int:
    """Drop gaps over a tight position that cost least for their bytes."""
    positions = recompute.tight_positions(plan.dropped, cap, plan.reach)
    position = random.choice(positions.tolist())
    gaps = recompute.base.droppable_over(plan.dropped, position)
    if not len(gaps):
        return cap
    if len(gaps) > _SAMPLE:
        gaps = np.array(sorted(random.sample(gaps.tolist(), _SAMPLE)), np.int64)
    cost = recompute.margins(plan.dropped, gaps, plan.reach) / recompute.base.sizes[gaps]
    blurred = cost * np.array([1 + 0.3 * random.random() for _ in range(len(gaps))])
    chosen = np.argsort(blurred, kind="stable")[: random.choice((1, 2, 4, 8, 16))]
    plan.dropped[gaps[chosen]] = 1
    return cap


_CHANGES: Final[tuple[Change, ...]] = (_hold_near, _hold_some, _tighten, _drop_cheap, _drop_cheap)
