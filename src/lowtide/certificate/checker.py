"""Check a certificate: that a plan is right, and that no plan is smaller.

    python checker.py CERTIFICATE

It gives one of three answers: "valid and optimal" (exit status 0), "valid, bound not certified" (2)
and "rejected" (4), with the reason. All that a certificate says is checked. The format stands in
`lowtide/planning/certificates.py`; this file shares nothing with it, nor with any solver.
"""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_left, insort
from itertools import compress, pairwise
from math import gcd
from typing import Any, Final, NamedTuple

EXIT_STATUS: Final = {"valid and optimal": 0, "valid, bound not certified": 2, "rejected": 4}
OPTIMAL, NOT_CERTIFIED, REJECTED = EXIT_STATUS

_COMPACT: Final[Any] = {"separators": (",", ":")}
_MOST: Final = 2**62
_LEAST: Final = (
    dict.fromkeys(("first", "last", "step", "closed"), 1 - _MOST)
    | dict.fromkeys(("region", "fixed_in", "fixed_at"), -1)
    | dict.fromkeys(("alignment", "denominator"), 1)
)
"""The least number in a field, where that is not 0."""
_MOST_WORK: Final = 2 * 10**8
"""Buffers times entries of a search tree, or times sizes: what is more would take too long."""


class Verdict(NamedTuple):
    """The answer; the plan takes `size` bytes, and no plan takes less than `bound`."""

    answer: str
    detail: str
    size: int = 0
    bound: int = 0


class _RejectedError(Exception):
    """The certificate is malformed, or says what is not so."""


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise _RejectedError(reason)


def check(data: bytes) -> Verdict:
    """Return what a certificate is worth, given the bytes of its file."""
    try:
        size, bound = _check(_read(data))
    except (_RejectedError, RecursionError, MemoryError) as error:
        return Verdict(REJECTED, str(error) or "out of memory")
    if bound == size:
        return Verdict(OPTIMAL, f"{size:,} bytes, and no plan is smaller", size, bound)
    return Verdict(NOT_CERTIFIED, f"{size:,} bytes; {bound:,} are needed", size, bound)


def _read(data: bytes) -> Any:
    """Parse JSON in a usual style: one value has many spellings, but no stray byte may go by."""
    try:
        text = data.decode()
        found = json.loads(text)
    except ValueError as error:
        raise _RejectedError(f"not JSON: {error}") from None
    blank = len(text) - 1 - len(text[1:].lstrip("\n "))
    styles: list[Any] = [{"indent": min(blank - 1, 8)}] if blank else [_COMPACT, {}]
    usual = any(text.removesuffix("\n") == json.dumps(found, **style) for style in styles)
    _require(usual, "unusual JSON: a name occurs twice, or it is neither compact nor indented")
    return found


def _check(document: Any) -> tuple[int, int]:
    """Return the size of the plan and the bound, after all that is claimed is checked."""
    fields = ["bound", "evidence", "kind", "plan", "problem", "schema", "sha256"]
    known = isinstance(document, dict) and sorted(document) == fields
    _require(known, f"expected an object with the fields {', '.join(fields)}")
    _require(document["schema"] == "lowtide.certificate/1", "schema: unknown")
    _require(document["kind"] in [*_KINDS], f"kind: expected one of {', '.join(_KINDS)}")
    kind, lengths = _KINDS[document["kind"]], {"": 1}
    claimed = _match({"bound": document["bound"]}, "bound/", "certificate", lengths)["bound"]
    problem = kind(_match(document["problem"], kind.PROBLEM, "problem", lengths))
    size = problem.check(_match(document["plan"], kind.PLAN, "plan", lengths))
    bound, evidence = 0, document["evidence"]
    if evidence is not None:
        claims = dict(evidence) if isinstance(evidence, dict) else {}
        name = claims.pop("kind", None)
        _require(name in [*kind.PROOFS], f"evidence.kind: expected {' or '.join(kind.PROOFS)}")
        _match(claims, kind.PROOFS[name], "evidence", lengths)
        bound = _up(getattr(problem, f"prove_{name}")(**claims), problem.unit())
    _require(claimed == bound, f"bound: {claimed:,} is claimed, {bound:,} is what is proved")
    _require(bound <= size, f"bound: {bound:,} is more than the plan takes, {size:,}")
    digest = document.pop("sha256")
    content = json.dumps(document, sort_keys=True, **_COMPACT).encode()
    _require(digest == hashlib.sha256(content).hexdigest(), "sha256: not that of the content")
    return size, bound


def _match(section: Any, spec: str, place: str, lengths: dict[str, int]) -> Any:
    """Return an object if it has the fields `name/`, a number, or `name/letter`, a column.

    Columns of one letter are equally long.
    """
    fields = dict([word.split("/") for word in spec.split()])
    known = isinstance(section, dict) and section.keys() == fields.keys()
    _require(known, f"{place}: expected an object with the fields {', '.join(fields)}")
    for name, length in fields.items():
        field, column = f"{place}.{name}", section[name] if length else [section[name]]
        whole = isinstance(column, list) and set(map(type, column)) <= {int}
        _require(whole, f"{field}: expected whole numbers{', a list of them' if length else ''}")
        least = _LEAST.get(name, 0)
        low, high = min(column, default=least), max(column, default=least)
        _require(least <= low <= high < _MOST, f"{field}: expected {least} to 2^62 - 1")
        count = lengths.setdefault(length, len(column))
        _require(count == len(column), f"{field}: {len(column):,} entries, expected {count:,}")
    return section


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


class _Packing:
    """Buffers in an arena, as low as can be, and in regions of given sizes."""

    PROBLEM: Final = "size/n alignment/n fixed_in/n fixed_at/n regions/b buffer/r first/r last/r"
    PLAN: Final = "region/n offset/n height/"
    PROOFS: Final = {"live": "step/", "refutation": "height/ buffers/k closed/c"}

    def __init__(self, problem: dict[str, list[int]]) -> None:
        self.sizes, self.alignments = problem["size"], problem["alignment"]
        self.regions, self.fixed_at = problem["regions"], problem["fixed_at"]
        self.fixed = list(zip(problem["fixed_in"], self.fixed_at, strict=True))
        self.rows = sorted(zip(problem["buffer"], problem["first"], problem["last"], strict=True))
        end = (-1, 0)
        for i, first, last in self.rows:
            if i >= len(self.sizes) or last < first or (i, first) <= end:
                raise _RejectedError(f"problem: {first} to {last} is no stretch of buffer {i}")
            end = (i, last)

    def check(self, plan: dict[str, Any]) -> int:
        """Return the height of a plan in which each buffer has a place of its own."""
        height, places = 0, list(zip(plan["region"], plan["offset"], strict=True))
        for i, (region, offset) in enumerate(places):
            end = offset + self.sizes[i]
            if offset % self.alignments[i] or self.fixed[i] not in ((-1, -1), places[i]):
                raise _RejectedError(f"buffer {i}: {offset:,} is not aligned, or not where fixed")
            if region >= len(self.regions) or (region >= 0 and end > self.regions[region]):
                raise _RejectedError(f"buffer {i}: it does not lie within region {region}")
            height = max(height, end if region < 0 else 0)
        _require(plan["height"] == height, f"plan.height: {height:,} is what the buffers reach")
        self._check_apart(places)
        return height

    def _check_apart(self, places: list[tuple[int, int]]) -> None:
        """Sweep over time: while what is live lies apart, only neighbours by offset can overlap."""
        order = sorted([i for i, size in enumerate(self.sizes) if size], key=lambda i: places[i])
        rank = {i: k for k, i in enumerate(order)}
        begins = sorted([(first, rank[i]) for i, first, _ in self.rows if i in rank])
        ends = sorted([(last, rank[i]) for i, _, last in self.rows if i in rank], reverse=True)
        live: list[int] = []  # ranks, in order
        for step, k in begins:
            while ends[-1][0] < step:
                del live[bisect_left(live, ends.pop()[1])]
            live.insert(at := bisect_left(live, k), k)
            for low, high in pairwise([order[x] for x in live[max(at - 1, 0) : at + 2]]):
                region, offset = places[low]
                if (region, offset + self.sizes[low]) > places[high]:
                    raise _RejectedError(f"buffers {low} and {high} overlap at step {step}")

    def unit(self) -> int:
        """Return what divides the height of all plans that are pushed down as far as they go."""
        # It is a sum of sizes, from a fixed place on or from 0, rounded up to alignments.
        unit = gcd(*self.sizes, *[x for x in self.fixed_at if x > 0])
        steps = {a for a, size in zip(self.alignments, self.sizes, strict=True) if size}
        while unit and (odd := [a for a in steps if unit % a and a % unit]):
            unit = gcd(unit, *odd)
        return max(unit, 1)

    def prove_live(self, step: int) -> int:
        """Return what the buffers live at a step need, less what there is in regions."""
        here = [i for i, first, last in self.rows if first <= step <= last and self.sizes[i]]
        if self.regions:
            return max(0, sum([self.sizes[i] for i in here]) - sum(self.regions))
        return _reach([(0, self.sizes[i], self.alignments[i]) for i in here])

    def prove_refutation(self, height: int, buffers: list[int], closed: list[int]) -> int:
        """Follow a search tree in preorder, which has to be complete and without open ends."""
        known = max(buffers, default=-1) < len(self.sizes) and not self.regions
        _require(known, "evidence.buffers: one is not there, or there are regions")
        kept = sorted([i for i in {*(buffers or range(len(self.sizes)))} if self.sizes[i]])
        search = _Search(self, height, kept, len(closed))
        todo: list[tuple[_Node, int]] = [(search.root, -1)]
        for position, entry in enumerate(closed):
            place = f"evidence.closed[{position}]"
            _require(len(todo) > 0, f"{place}: the tree ended before")
            node, placed = todo.pop()
            node = node if placed < 0 else search.child(node, placed)
            _require(any(node.present), f"{place}: all buffers have found a place")
            if entry >= 0:
                _require(search.reach(node, entry) > height, f"{place}: step {entry} has room")
            elif entry == -1:
                todo += [(node, i) for i in reversed(search.children(node))]
            else:
                todo.append((search.connected(node, -2 - entry), -1))
        _require(not todo, f"evidence.closed: {len(closed):,} entries leave something to try")
        return height + 1


def _reach(buffers: list[tuple[int, int, int]]) -> int:
    """Return how high at least those live at once reach, each (least offset, size, alignment).

    The buffers from any offset on lie above it and on one another, and all but the topmost take
    their size, rounded up to what divides the alignments of all.
    """
    unit = gcd(*[alignment for _, _, alignment in buffers])
    reach = need = slack = 0
    for low, size, _ in sorted(buffers, reverse=True):
        need += _up(size, unit)
        slack = max(slack, _up(size, unit) - size)
        reach = max(reach, low + need - slack)
    return reach


class _Node(NamedTuple):
    """What is to be placed, how high what is placed reaches where each is live, and who is last."""

    present: bytearray
    floor: list[int]
    last: tuple[int, int]


class _Search:
    """Packings below a height, pushed down as far as they go, in order of (offset, number).

    A buffer rests on the floor, on another, or where it is fixed; equal ones lie in order.
    """

    def __init__(self, packing: _Packing, height: int, kept: list[int], entries: int) -> None:
        number, count = {i: k for k, i in enumerate(kept)}, len(kept)
        self.rows = [(number[i], first, last) for i, first, last in packing.rows if i in number]
        work = (count + len(self.rows)) * (count + entries)
        _require(work <= _MOST_WORK, "evidence: too long to check")
        self.height, self.numbers = height, range(count)
        self.sizes = [packing.sizes[i] for i in kept]
        self.alignments = [packing.alignments[i] for i in kept]
        self.fixed = {k: packing.fixed_at[i] for i, k in number.items() if packing.fixed_at[i] >= 0}
        own: list[list[tuple[int, int]]] = [[] for _ in kept]
        self.beside, live = [bytearray(count) for _ in kept], dict[int, int]()
        for first, last, i in sorted([(first, last, i) for i, first, last in self.rows]):
            live = {j: end for j, end in live.items() if end >= first}
            for j in live:
                self.beside[i][j] = self.beside[j][i] = 1
            live[i] = last
            own[i].append((first, last))
        self.twin, seen = dict[int, int | None](), dict[Any, int]()
        for i in [i for i in self.numbers if i not in self.fixed]:
            key = (self.sizes[i], self.alignments[i], *own[i])
            self.twin[i], seen[key] = seen.get(key), i
        self.root = _Node(bytearray([1]) * count, [0] * count, (-1, -1))

    def _rest(self, node: _Node, i: int, least: int = 0) -> int:
        return self.fixed.get(i, _up(max(node.floor[i], least), self.alignments[i]))

    def _live(self, node: _Node, step: int) -> list[int]:
        return [i for i, first, last in self.rows if first <= step <= last and node.present[i]]

    def reach(self, node: _Node, step: int) -> int:
        """Return how high at least those to be placed reach that are live at a step."""
        here = [(self._rest(node, i, node.last[0]), i) for i in self._live(node, step)]
        return _reach([(low, self.sizes[i], self.alignments[i]) for low, i in here])

    def connected(self, node: _Node, step: int) -> _Node:
        """Return the node without those that have nothing to do with what is live at a step."""
        todo, present = self._live(node, step), bytearray(len(node.present))
        while todo:
            i = todo.pop()
            if node.present[i] and not present[i]:
                present[i] = 1
                todo += compress(self.numbers, self.beside[i])
        return node._replace(present=present)

    def children(self, node: _Node) -> list[int]:
        """Return the buffers of which one has to come next."""
        rest = {i: self._rest(node, i) for i in compress(self.numbers, node.present)}
        found, top = [], self.height + 1
        for low, i in sorted([(low, i) for i, low in rest.items()]):
            end = low + self.sizes[i]
            near = [j for j in compress(self.numbers, self.beside[i]) if rest.get(j, end) < end]
            free = self.twin.get(i) not in rest and self.fixed.keys().isdisjoint(near)
            # From `top` on, one that was passed over could still be moved down to where it rested.
            if free and end <= self.height and node.last < (low, i) and low < top:
                found.append(i)
            # What is fixed comes in its turn, and so does what nothing can be in the way of.
            if i in self.fixed or not near:
                break
            top = min(top, end)
        return found

    def child(self, node: _Node, i: int) -> _Node:
        """Return the node at which a buffer is placed where it rests."""
        low = self._rest(node, i)
        present, floor = node.present.copy(), node.floor.copy()
        present[i] = 0
        for j in compress(self.numbers, self.beside[i]):
            floor[j] = max(floor[j], low + self.sizes[i])
        return _Node(present, floor, (low, i))


class _Sharing:
    """Tensors that share objects, each as large as the largest tensor in it."""

    PROBLEM: Final = "size/n first/n last/n restricted/ before/g after/g"
    PLAN: Final = "object/n size/o total/"
    PROOFS: Final = {"clique": "step/k size/k", "dual": "price/n denominator/"}

    def __init__(self, problem: dict[str, Any]) -> None:
        self.sizes, self.first, self.last = problem["size"], problem["first"], problem["last"]
        self.follow = {*zip(problem["before"], problem["after"], strict=True)}
        self.restricted = problem["restricted"]
        wrong = [i for i, first in enumerate(self.first) if self.last[i] < first]
        _require(not wrong, f"problem.last: tensor {wrong[:1]} ends before it begins")

    def check(self, plan: dict[str, Any]) -> int:
        """Return the sizes of all objects together; in each lies one tensor at a time."""
        objects, largest = plan["object"], [-1] * len(plan["size"])
        _require(max(objects, default=-1) < len(largest), "plan.object: one is not there")
        for number, size in zip(objects, self.sizes, strict=True):
            largest[number] = max(largest[number], size)
        _require(plan["size"] == largest, "plan.size: not that of the largest tensor in each")
        _require(plan["total"] == sum(largest), f"plan.total: the objects take {sum(largest):,}")
        order = sorted(range(len(objects)), key=lambda i: (objects[i], self.first[i]))
        for i, j in [(i, j) for i, j in pairwise(order) if objects[i] == objects[j]]:
            if self.last[i] >= self.first[j] or (self.restricted and (i, j) not in self.follow):
                raise _RejectedError(f"tensor {j} must not follow {i} in object {objects[i]}")
        return sum(largest)

    def unit(self) -> int:
        """Return what divides the total of all plans: objects have sizes of tensors."""
        return max(gcd(*self.sizes), 1)

    def prove_clique(self, step: list[int], size: list[int]) -> int:
        """Return the sum of sizes, the k-th that of the k-th largest object at least.

        So it is because k tensors at least as large are live at the k-th step.
        """
        begins = sorted(zip(self.first, self.sizes, strict=True), reverse=True)
        ends = sorted(zip(self.last, self.sizes, strict=True), reverse=True)
        live: list[int] = []
        for task, nbytes, k in sorted(zip(step, size, range(1, len(step) + 1), strict=True)):
            while begins and begins[-1][0] <= task:
                insort(live, begins.pop()[1])
            while ends and ends[-1][0] < task:
                del live[bisect_left(live, ends.pop()[1])]
            if len(live) - bisect_left(live, nbytes) < k:
                raise _RejectedError(f"evidence: less than {k} tensors of {nbytes:,} at {task}")
        return sum(size)

    def prove_dual(self, price: list[int], denominator: int) -> int:
        """Return the sum of prices, if tensors that fit one object together never cost more.

        That is a heaviest set of intervals that do not meet, for each size that an object may have.
        """
        order = sorted(range(len(price)), key=lambda i: self.last[i])
        ends, widths = [self.last[i] for i in order], sorted({*self.sizes})
        before = [bisect_left(ends, self.first[i]) for i in order]
        _require(len(widths) * len(order) <= _MOST_WORK, "evidence: too long to check")
        for width in widths:
            best = [0]
            for k, i in zip(before, order, strict=True):
                best.append(max(best[-1], best[k] + price[i] if self.sizes[i] <= width else 0))
            if best[-1] > width * denominator:
                raise _RejectedError(f"evidence.price: in {width:,} bytes, tensors cost more")
        return _up(sum(price), denominator) // denominator


_KINDS: Final[dict[str, Any]] = {"offsets": _Packing, "objects": _Sharing}


def main() -> int:
    """Print what the certificate named on the command line is worth; return the exit status."""
    try:
        with open(0 if sys.argv[1] == "-" else sys.argv[1], "rb") as stream:
            verdict = check(stream.read())
    except (IndexError, OSError) as error:
        print(f"usage: checker.py CERTIFICATE, a file or -: {error}", file=sys.stderr)
        return 1
    print(f"{verdict.answer}: {verdict.detail}")
    return EXIT_STATUS[verdict.answer]


if __name__ == "__main__":
    sys.exit(main())
