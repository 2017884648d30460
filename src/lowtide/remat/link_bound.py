"""The least extra time of a run that may also store values behind a link, from a cut of a network.

Take the step in which a node `v` first runs, and Y as in `network.py`. What a node in Y reads is
held when the step ends, made again behind it for a time of x, or comes back. What comes back, of
L seconds on the link, was stored by then: the link was busy for L before the step ended, and is
for L behind it. The step and what has to run before it compute for `before` seconds, what has to
run behind it for `behind`; all of it for `base`, and `others` is lost inside of nodes. So a run
takes at least

  base + x + others    what it computes
  L + behind + x       the link, then what is behind
  before + L           what is before, then the link
  L + L                the link twice

and so at least any mean of the first with one of the others. Let that one have the weight m, and c
be the share of x in the mean. At a price `l` per byte held for which c l is at most what the mean
adds for a byte that comes back, a byte costs no less in it than if it were held: the mean is at
least c (cut(l) - l room), and what stands in it besides. With `share` the price in parts of the
time in which the link carries a byte, and `proved` for cut(l) - l room, that gives, beyond base,

  m = share              c = 1        proved + (1 - m) others - m (base - behind)
  m = share / (1 + share)  c = 1 - m  (1 - m) (proved + others) - m (base - before)
  m = share / (2 + share)  c = 1 - m  (1 - m) (proved + others) - m base
"""

from __future__ import annotations

from typing import Final

from lowtide.records import dataclass

LINK_PRICES: Final = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Prices of a byte that are worth a try, as parts of the time in which the link carries one."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds of a run without a budget: all, before a node and with it, behind it; and others.

    `others` are those proved to be lost inside of nodes within the budget.
    """

    base: float
    before: float
    behind: float
    others: float


def least_beside_link(proved: float, share: float, times: RunTimes) -> float:
    """Return extra seconds that no run goes below, from what a cut proves without a link.

    `share` is the price at which it is proved, in parts of the time of a byte on the link.
    """
    base, others = times.base, times.others
    found = others
    if share <= 1:
        found = max(found, proved + (1 - share) * others - share * (base - times.behind))
    for ways, known in ((1, times.before), (2, 0.0)):
        weight = share / (ways + share)
        found = max(found, (1 - weight) * (proved + others) - weight * (base - known))
    return found
