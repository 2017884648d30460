"""Lower bounds on the height of a packing, without a search."""

from __future__ import annotations

import numpy as np

from lowtide.planning.exact.instance import Instance
from lowtide.planning.exact.items import Items
from lowtide.planning.problem import FREE, Int64Array


def live_bound(items: Items) -> int:
    """Return the most bytes live at once, with all but the topmost item rounded up.

    Addresses are multiples of a common alignment, and so is how far two of them are apart. What is
    fixed has to fit as well.
    """
    if not len(items):
        return 0
    common = items.common_alignment
    rounded = -(-items.size // common) * common
    padding = int((rounded - items.size).max())
    exact = int(items.live(items.size).max())
    fixed = items.fixed != FREE
    tops = (items.fixed + items.size)[fixed]
    return max(exact, int(items.live(rounded).max()) - padding, int(tops.max(initial=0)))


def resting_bound(instance: Instance) -> int:
    """Return how high the items of some section reach, given how low each can lie at least.

    A machine that works on one job at a time, with these heights as release dates. Only fixed items
    and alignments keep an item from lying at 0.
    """
    rest = _lowest(instance)
    most = 0
    for t in range(len(instance.steps)):
        members = instance.cover[instance.cover_starts[t] : instance.cover_starts[t + 1]]
        members = members[np.argsort(-rest[members], kind="stable")]
        most = max(most, int((rest[members] + np.cumsum(instance.size[members])).max(initial=0)))
    return most


def _lowest(instance: Instance) -> Int64Array:
    """Return the lowest address at which fixed items leave room for each item."""
    free = instance.fixed == FREE
    place = np.where(free, 0, instance.fixed)
    below = ~free
    for i, met in instance.fixed_neighbours():
        begin = int(instance.fixed[i])
        end = begin + int(instance.size[i])
        open_ = met[~below[met] & (end > place[met])]
        fits = place[open_] + instance.size[open_] <= begin
        below[open_[fits]] = True
        lifted = open_[~fits]
        place[lifted] = -(-end // instance.alignment[lifted]) * instance.alignment[lifted]
    return place
