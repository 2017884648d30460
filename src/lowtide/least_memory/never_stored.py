"""Values that a minimum cut need not store, and the network of the others.

A value that is made of others, as often as one likes, and has no fewer bytes than all of these
together, need not be stored: to store what it is made of takes no more. So its two nodes are one;
of a value that is made of one other, they are the node of that. What takes nothing to store asks
for nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.least_memory.values import Int64Array, ProgramValues

VOID: Final = -1
"""In place of a node: what asks for nothing."""


def standing_for(
    values: ProgramValues, is_free: Any, needed: Int64Array, later: Int64Array, nodes: int
) -> Int64Array:
    """Return for each node the one that stands for it in all minimum cuts, or VOID.

    `is_free` says which operations may run as often as one likes; `needed` and `later` are the
    nodes of the values and of the operations.
    """
    found = np.arange(nodes + 1)
    found[needed[values.nbytes == 0]] = nodes
    nbytes = values.nbytes.tolist()
    for number in np.flatnonzero(is_free).tolist():
        makes = values.makes[number]
        if len(makes) != 1:
            continue
        reads = {v for v in values.reads[number] if nbytes[v]}
        if sum([nbytes[v] for v in reads]) > nbytes[makes[0]]:
            continue
        own = nodes if not reads else needed[reads.pop()] if len(reads) == 1 else later[number]
        found[later[number]] = own
        if nbytes[makes[0]]:
            found[needed[makes[0]]] = own
    while True:  # A chain of so many values takes the logarithm of that.
        further = found[found]
        if np.array_equal(further, found):
            break
        found = further
    found[found == nodes] = VOID
    return found[:nodes]


def contracted(
    arcs: tuple[Int64Array, Int64Array, Int64Array], stands: Int64Array, endless: int
) -> tuple[tuple[Int64Array, Int64Array, Int64Array], Int64Array]:
    """Return the arcs between nodes that stand for others, each once, and the number of each node.

    Numbers of source and sink, the first two, stay; VOID is that of nodes without arcs.
    """
    tails, heads, capacity = stands[arcs[0]], stands[arcs[1]], arcs[2]
    counts = (tails != heads) & (tails != VOID) & (heads != VOID) & (capacity > 0)
    tails, heads, capacity = tails[counts], heads[counts], capacity[counts]
    whole = capacity >= endless
    rules = np.unique(np.stack([tails[whole], heads[whole]]), axis=1)
    tails = np.concatenate([tails[~whole], rules[0]])
    heads = np.concatenate([heads[~whole], rules[1]])
    capacity = np.concatenate([capacity[~whole], np.full(rules.shape[1], endless)])
    used = np.unique(np.concatenate([[0, 1], tails, heads]))
    number = np.full(len(stands) + 1, VOID)  # The last one is that of VOID.
    number[used] = np.arange(len(used))
    number[:-1] = number[stands]
    return (number[tails], number[heads], capacity), number[:-1]
