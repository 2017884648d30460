"""Collective operations between ranks: what is sent at once, and what is done once it has come.

Arrays are given as they lie in memory, operands in the order of dimensions of their results. A rule
posts messages that do not wait for others, and returns what finishes the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Final, TypeAlias

import numpy as np

from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import Array
from lowtide.ir.opcode import Opcode
from lowtide.runtime.mpi.combining import combine
from lowtide.runtime.mpi.link import Link, Requests

SMALL_BYTES: Final = 1 << 14
"""Arrays up to this are sent to all and combined by all: one step instead of two."""

SEGMENT_BYTES: Final = 1 << 22
"""What is combined, of each rank, while the next of it is on the way."""

Finish: TypeAlias = Callable[[], None]
Rule: TypeAlias = Callable[[Link, Sequence[Array], Sequence[Array], "int | None"], Finish]
"""From a link, operands, results and the dimension, as it lies in memory, to what finishes."""


def begin(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    """Begin an operation; return what finishes it.

    Until then operands are read, and results are written. They may be the same memory, in whole.
    """
    rule = _RULES[link.collective.kind]
    if rule is not _all_reduce:
        operands = [_apart(x, results) for x in operands]
    return rule(link, operands, results, axis)


def _apart(operand: Array, results: Sequence[Array]) -> Array:
    return operand.copy() if any(np.may_share_memory(operand, x) for x in results) else operand


def _once_done(link: Link, requests: Requests, *steps: Finish) -> Finish:
    def finish() -> None:
        link.wait(requests)
        for step in steps:
            step()

    return finish


def _cut(array: Array, count: int, axis: int) -> Array:
    """A view of sizes [outer, count, inner]: the parts along an axis, which is cut evenly."""
    outer, rest = prod(array.shape[:axis]), prod(array.shape[axis:])
    return array.reshape(outer, count, rest // count)


# -- gathering and dealing -------------------------------------------------------------------------


def _all_gather(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    requests, steps = [], []
    for operand, result in zip(operands, results, strict=True):
        parts = _cut(result, link.count, axis or 0)
        found, put = _received_parts(link, parts)
        requests += link.swap([operand] * link.count, found)
        parts[:, link.place] = operand.reshape(parts[:, 0].shape)
        steps.append(put)
    return _once_done(link, requests, *steps)


def _all_to_all(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    if axis is None:
        requests = link.swap(operands, results)
        results[link.place][...] = operands[link.place]
        return _once_done(link, requests)
    requests, steps = [], []
    for operand, result in zip(operands, results, strict=True):
        parts = _cut(result, link.count, axis)
        found, put = _received_parts(link, parts)
        sent = _parts(operand, link.count, axis)
        requests += link.swap(sent, found)
        parts[:, link.place] = sent[link.place]
        steps.append(put)
    return _once_done(link, requests, *steps)


def _parts(array: Array, count: int, axis: int) -> list[Array]:
    """The parts along an axis, each in one piece of memory."""
    parts = _cut(array, count, axis)
    return [np.asarray(parts[:, place], order="C") for place in range(count)]


def _received_parts(link: Link, parts: Array) -> tuple[list[Array], Finish]:
    """Memory for the part of each rank, and what puts those that are in the wrong place."""
    if parts.shape[0] == 1:
        return [parts[0, place] for place in range(link.count)], lambda: None
    found = [np.empty_like(parts[:, 0], order="C") for _ in range(link.count)]

    def put() -> None:
        for place in link.others:
            parts[:, place] = found[place]

    return found, put


def _broadcast(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    requests = []
    for operand, result in zip(operands, results, strict=True):
        if link.place:
            requests += link.receive(result, 0)
        else:
            result[...] = operand
            requests += [x for place in link.others for x in link.send(operand, place)]
    return _once_done(link, requests)


def _permute(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    requests = []
    own = link.place
    sources = [source for source, target in link.collective.pairs if target == own]
    targets = [target for source, target in link.collective.pairs if source == own]
    for result in results[0 if not sources else len(operands) :]:
        result[...] = np.zeros((), result.dtype)
    for operand, result in zip(operands, results, strict=False):
        if sources and sources[0] != own:
            requests += link.receive(result, sources[0])
        for target in targets:
            if target != own:
                requests += link.send(operand, target)
            else:
                result[...] = operand
    return _once_done(link, requests)


# -- combining -------------------------------------------------------------------------------------


def _all_reduce(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    begun = []
    for number, (operand, result) in enumerate(zip(operands, results, strict=True)):
        rule = _reduced_by_all if operand.nbytes <= SMALL_BYTES else _reduced_in_chunks
        begun.append(rule(link, number, operand.reshape(-1), result.reshape(-1)))
    return _once_done(link, [], *begun)


def _reduced_by_all(link: Link, number: int, operand: Array, result: Array) -> Finish:
    """All have all arrays, and combine them."""
    found = [np.empty_like(operand) for _ in range(link.count)]
    found[link.place] = operand
    requests = link.swap([operand] * link.count, found)
    return _once_done(link, requests, lambda: _combine(link, number, result, found))


def _reduced_in_chunks(link: Link, number: int, operand: Array, result: Array) -> Finish:
    """Each rank combines one chunk of the array, in segments, and sends it to the others.

    What is sent of a segment has left before anything arrives in its place.
    """
    bounds = [operand.size * place // link.count for place in range(link.count + 1)]
    chunks = list(pairwise(bounds))
    step = max(SEGMENT_BYTES // operand.itemsize, 1)
    longest = max([end - begin for begin, end in chunks])
    own = slice(*chunks[link.place])
    found = [np.empty_like(operand[own]) for _ in range(link.count)]
    found[link.place] = operand[own]
    starts = range(0, longest, step)
    posted = []
    for start in starts:
        sent = [operand[begin:end][start : start + step] for begin, end in chunks]
        posted.append(link.swap(sent, [x[start : start + step] for x in found]))

    def finish() -> None:
        requests = []
        for start, needed in zip(starts, posted, strict=True):
            link.wait(needed)
            part = result[own][start : start + step]
            _combine(link, number, part, [x[start : start + step] for x in found])
            arriving = [result[begin:end][start : start + step] for begin, end in chunks]
            requests += link.swap([part] * link.count, arriving)
        link.wait(requests)

    return finish


def _reduce_scatter(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    begun = []
    for number, (operand, result) in enumerate(zip(operands, results, strict=True)):
        sent = _parts(operand, link.count, axis or 0)
        found = [np.empty_like(sent[0]) for _ in range(link.count)]
        found[link.place] = sent[link.place]
        requests = link.swap(sent, found)
        begun.append(_once_done(link, requests, _combiner(link, number, result, found)))
    return _once_done(link, [], *begun)


def _combiner(link: Link, number: int, result: Array, arrays: Sequence[Array]) -> Finish:
    return lambda: _combine(link, number, result.reshape(-1), [x.reshape(-1) for x in arrays])


def _combine(link: Link, number: int, result: Array, arrays: Sequence[Array]) -> None:
    reducer = link.collective.reducer
    assert reducer is not None
    combine(result, arrays, reducer, link.collective.operands[number].element_type)


# -- rows of any number ----------------------------------------------------------------------------


def _ragged(
    link: Link, operands: Sequence[Array], results: Sequence[Array], axis: int | None
) -> Finish:
    """Rows of the first operand go to places that their sender says, in a copy of the second.

    For each rank of the group there are equally many slices: where each begins here, its rows, and
    where it begins there.
    """
    source, target, *numbers = operands
    starts, sizes, places = [x.reshape(link.count, -1).astype(np.int64) for x in numbers[:3]]
    result = results[0]
    result[...] = target
    _check_rows(link, starts, sizes, len(source), "reads")
    sent = [_rows(source, starts[x], sizes[x]) for x in range(link.count)]
    heads = [np.stack([sizes[x], places[x]]) for x in range(link.count)]
    found = [np.empty_like(heads[0]) for _ in range(link.count)]
    requests = link.swap(heads, found)
    for place in link.others:
        requests += link.send(sent[place], place)

    def finish() -> None:
        link.wait(requests)
        found[link.place] = heads[link.place]
        row = result.shape[1:]
        rows = [np.empty((int(x[0].sum()), *row), result.dtype) for x in found]
        rows[link.place] = sent[link.place]
        link.wait([x for place in link.others for x in link.receive(rows[place], place)])
        for (counts, begins), values in zip(found, rows, strict=True):
            _check_rows(link, begins, counts, len(result), "writes")
            at = 0
            for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
                result[begin : begin + count] = values[at : at + count]
                at += count

    return finish


def _rows(source: Array, starts: Array, sizes: Array) -> Array:
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    return np.concatenate([source[start : start + size] for start, size in pairs])


def _check_rows(link: Link, starts: Array, sizes: Array, count: int, what: str) -> None:
    """Raise LowtideError for slices beyond an array of so many rows."""
    if ((starts < 0) | (sizes < 0) | (starts + sizes > count)).any():
        raise LowtideError(f"{link.collective}: {what} rows beyond the {count} of its array")


_RULES: Final[Mapping[Opcode, Rule]] = {
    Opcode.ALL_GATHER: _all_gather,
    Opcode.ALL_REDUCE: _all_reduce,
    Opcode.ALL_TO_ALL: _all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _broadcast,
    Opcode.COLLECTIVE_PERMUTE: _permute,
    Opcode.RAGGED_ALL_TO_ALL: _ragged,
    Opcode.REDUCE_SCATTER: _reduce_scatter,
}
