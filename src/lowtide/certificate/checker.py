"""Check a certificate: that a plan is right, and that no plan is better.

Its answers, its format and the proofs stand in docs/certificates.md; no solver shares code with it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from bisect import bisect_left
from collections import Counter
from itertools import accumulate, chain, pairwise
from math import gcd
from typing import Any, Final, NamedTuple

EXIT_STATUS: Final = {"valid and optimal": 0, "valid, bound not certified": 2, "rejected": 4}
OPTIMAL, NOT_CERTIFIED, REJECTED = EXIT_STATUS

_COMPACT: Final[Any] = {"separators": (",", ":")}
_ENDLESS: Final = 2**99  # more than all sizes, and the cost of a plan where there is none
_MOST_WORK: Final = 2 * 10**8  # rows times entries, or sizes: what is more would take too long


class Verdict(NamedTuple):
    """The answer; the plan takes `size` bytes, or ticks, and no plan takes less than `bound`."""

    answer: str
    detail: str
    size: int = 0
    bound: int = 0


def check(data: bytes) -> Verdict:
    """Return what a certificate is worth, given the bytes of its file."""
    try:
        size, bound, unit = _check(data)
    except Exception as error:  # what cannot be followed to its end is not shown
        kind = "" if type(error) is ValueError else f"malformed, {type(error).__name__}: "
        return Verdict(REJECTED, ascii(f"{kind}{error}")[1:-1][:250])
    if bound == size:
        best = "no plan fits" if size == _ENDLESS else f"{size:,} {unit}, and no plan is smaller"
        return Verdict(OPTIMAL, best, size, bound)
    found = "no plan" if size == _ENDLESS else f"{size:,} {unit}"
    return Verdict(NOT_CERTIFIED, f"{found}; {bound:,} {unit} are needed", size, bound)


def _require(holds: object, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def _fields(section: Any, names: str) -> list[Any]:
    known = isinstance(section, dict) and sorted(section) == sorted(names.split())
    _require(known, f"expected an object with the fields {names}")
    return [section[name] for name in names.split()]


def _check(data: bytes) -> tuple[int, int, str]:
    """Return the size of the plan, the bound and their unit, after all that is said is checked."""
    text = data.decode().removesuffix("\n")
    document = json.loads(text)
    # All numbers are whole and from 0 on: one out of range is an error when it is looked up.
    plain = {*re.sub(r'"[ !#-\[\]-~]*"', "", text)} <= {*"[]{}:,0123456789"}
    _require(plain and text == json.dumps(document, **_COMPACT), "unusual JSON")
    names = "schema kind problem plan bound evidence sha256"
    schema, kind, problem, plan, claimed, evidence, digest = _fields(document, names)
    _require(schema == "lowtide.certificate/2", "schema: unknown")
    _require(kind in [*_KINDS], f"kind: expected one of {', '.join(_KINDS)}")
    checked = _KINDS[kind](problem)
    size, bound = checked.check(plan), checked.prove(evidence) if evidence else 0
    _require(claimed == bound, f"bound: {claimed} is claimed, {bound} is what is proved")
    _require(bound <= size, f"bound: {bound:,} is more than the plan takes, {size:,}")
    del document["sha256"]
    content = json.dumps(document, sort_keys=True, **_COMPACT).encode()
    _require(digest == hashlib.sha256(content).hexdigest(), "sha256: not that of the content")
    return size, bound, checked.UNIT


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _reached(start: int, rows: list[list[int]]) -> set[int]:
    found, todo = set[int](), [start]
    while todo:
        fresh = {*rows[todo.pop()]} - found
        found |= fresh
        todo += fresh
    return found


def _walk(tree: list[Any], rows: int, link: Any, is_closed: Any) -> None:
    """Follow a tree in preorder: of a pair, one comes first, or the other; all ends are closed."""
    _require(len(tree) * rows <= _MOST_WORK, "evidence: too long to check")
    path, todo = list[list[int]](), list[tuple[int, list[int]]]([(0, [])])
    for number, entry in enumerate(tree):
        depth, pair = todo.pop()
        while len(path) > depth:
            link(*path.pop(), -1)
        if pair:
            path.append(pair)
            link(*pair, 1)
        if isinstance(entry, list):
            _require(entry[0] != entry[1], f"tree[{number}]: a pair is of two")
            todo += [(len(path), entry[::-1]), (len(path), entry)]
        else:
            _require(is_closed(entry), f"tree[{number}]: there is room")
    _require(not todo, f"tree: {len(tree):,} entries leave something to try")


class _Packing:
    """Buffers in region 0, the arena, as low as can be, and in further regions of given sizes."""

    UNIT = "bytes"

    def __init__(self, problem: Any) -> None:
        self.buffers, self.regions = _fields(problem, "buffers regions")
        columns: Any = zip(*self.buffers, strict=True) if self.buffers else [()] * 4
        self.sizes, self.alignments, self.fixed, self.own = columns
        for i, own in enumerate(self.own):
            times = [x for first, last in own for x in (2 * first, 2 * last + 1)]
            _require(times == sorted({*times}), f"buffer {i}: its stretches are not in order")
        self.rows = [(i, first, last) for i, own in enumerate(self.own) for first, last in own]
        self.below: list[tuple[int, int]] = []

    def check(self, plan: Any) -> int:
        """Return the height of a plan in which each buffer has a place of its own."""
        places, claimed = _fields(plan, "places height")
        height, capacities = 0, [_ENDLESS, *self.regions]
        for i, (place, (size, unit, fixed, _)) in enumerate(zip(places, self.buffers, strict=True)):
            region, offset = place
            legal = offset % unit == 0 and fixed in ([], place)
            _require(legal, f"buffer {i}: {offset:,} is not aligned, or not where it is fixed")
            _require(offset + size <= capacities[region], f"buffer {i}: not within region {region}")
            height = max(height, 0 if region else offset + size)
        _require(claimed == height, f"height: {height:,} is what the buffers reach")
        # A sweep over time: while what is live lies apart, only neighbours by offset can overlap.
        order = sorted([i for i, size in enumerate(self.sizes) if size], key=lambda i: places[i])
        rank = {i: k for k, i in enumerate(order)}
        begins = sorted([(first, rank[i]) for i, first, _ in self.rows if i in rank])
        ends = sorted([(-last, rank[i]) for i, _, last in self.rows if i in rank])
        live: list[int] = []  # ranks, in order
        for step, k in begins:
            while -ends[-1][0] < step:
                del live[bisect_left(live, ends.pop()[1])]
            live.insert(at := bisect_left(live, k), k)
            for low, high in pairwise([order[x] for x in live[max(at - 1, 0) : at + 2]]):
                apart = [places[low][0], places[low][1] + self.sizes[low]] <= places[high]
                _require(apart, f"buffers {low} and {high} overlap at step {step}")
        return height

    def prove(self, evidence: Any) -> int:
        """Follow a tree in which one buffer lies below another, or above, up to crowded steps."""
        height, tree = _fields(evidence, "height tree")
        _walk(tree, len(self.rows), self._link, lambda step: self._reach(step) > height)
        # The least height is a sum of sizes, from a fixed place or 0 on, rounded up to alignments.
        unit = gcd(*self.sizes, *[place[1] for place in self.fixed if place])
        steps = {a for a, size in zip(self.alignments, self.sizes, strict=True) if size}
        while unit and (odd := [a for a in steps if unit % a and a % unit]):
            unit = gcd(unit, *odd)
        return _up(height + 1, max(unit, 1))

    def _link(self, i: int, j: int, sign: int) -> None:
        meet = [a <= d and c <= b for a, b in self.own[i] for c, d in self.own[j]]
        apart = any(meet) and self.sizes[i] and self.sizes[j]
        _require(apart, f"tree: buffers {i} and {j} need not lie apart")
        self.below = [*self.below, (i, j)] if sign > 0 else self.below[:-1]

    def _reach(self, step: int) -> int:
        """Return how high at least the buffers live at a step reach, as they lie on one another."""
        here = [i for i, first, last in self.rows if first <= step <= last and self.sizes[i]]
        if self.regions:
            return int(sum([self.sizes[i] for i in here]) - sum(self.regions))
        rest = {i: (self.fixed[i] or [0, 0])[1] for i in chain(here, *self.below)}
        above = dict.fromkeys(rest, 0)
        for _ in self.below:
            for i, j in self.below:
                rest[j] = max(rest[j], _up(rest[i] + self.sizes[i], self.alignments[j]))
                above[i] = max(above[i], above[j] + self.sizes[j])
        wrong = [i for i in rest if self.fixed[i] and rest[i] > self.fixed[i][1]]
        wrong += [i for i, j in self.below if rest[i] + self.sizes[i] > rest[j]]
        if wrong or any(i > j and self.buffers[i] == self.buffers[j] for i, j in self.below):
            return _ENDLESS  # equal ones lie in order, and none in a circle
        # All but the topmost take their size, rounded up to what divides the alignments of all.
        unit, most = gcd(*[self.alignments[i] for i in here]), 0
        for tail in {above[i] for i in here}:
            need = slack = 0
            for low, i in sorted([(rest[i], i) for i in here if above[i] >= tail], reverse=True):
                need += _up(self.sizes[i], unit)
                slack = max(slack, _up(self.sizes[i], unit) - self.sizes[i])
                most = max(most, low + need - slack + tail)
        return most


class _Sharing(_Packing):
    """Tensors that share objects: regions in which one tensor lies at a time, at offset 0."""

    def __init__(self, problem: Any) -> None:
        tensors, self.follow = _fields(problem, "tensors follow")
        buffers = [[size, 1, [], [[first, last]]] for size, first, last in tensors]
        super().__init__({"buffers": buffers, "regions": []})

    def check(self, plan: Any) -> int:
        """Return the sizes of all objects together."""
        objects, self.regions, total = _fields(plan, "objects sizes total")
        super().check({"places": [[number + 1, 0] for number in objects], "height": 0})
        pairs = {(i, j) for i, j in self.follow}
        order = sorted(range(len(objects)), key=lambda i: (objects[i], self.own[i]))
        for i, j in pairwise(order):
            legal = objects[i] != objects[j] or not pairs or (i, j) in pairs
            _require(legal, f"tensor {j} must not follow {i} in object {objects[i]}")
        _require(total == sum(self.regions), f"total: {sum(self.regions):,} is the sum of sizes")
        return sum(self.regions)

    def prove(self, evidence: Any) -> int:
        """Return the sum of prices, if tensors that fit one object together never cost more."""
        prices, rate = _fields(evidence, "prices rate")
        found = zip(self.own, self.sizes, prices, strict=True)
        order = sorted([(last, first, size, price) for [[first, last]], size, price in found])
        before = [bisect_left(order, (first,)) for _, first, _, _ in order]
        _require(len({*self.sizes}) * len(order) <= _MOST_WORK, "evidence: too long to check")
        for width in {*self.sizes}:
            best = [0]  # of the first tensors, the heaviest that do not meet
            for k, (_, _, size, price) in zip(before, order, strict=True):
                best.append(max(best[-1], best[k] + price if size <= width else 0))
            _require(best[-1] <= width * rate, f"prices: in {width:,} bytes, tensors cost more")
        return _up(-(-sum(prices) // rate), max(gcd(*self.sizes), 1))


class _Graph:
    """A computation: its start, node 0, its nodes and its end, then its buffers, in one row."""

    def __init__(self, section: Any) -> None:
        nodes, self.bytes, given, kept, reuses = _fields(section, "nodes bytes given kept reuses")
        rows = [[0, 0, [], [], given, []], *nodes, [0, 0, [], kept, [], []]]
        columns = zip(*rows, strict=True)
        self.scratch, self.seconds, self.control, self.reads, self.makes, self.calls = columns
        self.producers = {b: p for p, made in enumerate(self.makes) for b in made}
        _require(sorted(chain(*self.makes)) == [*range(len(self.bytes))], "nodes: one maker each")
        self.kept, self.first, self.late = {*kept}, len(rows), len(rows) + len(self.bytes)
        self.before, self.after = ([list[int]() for _ in rows] for _ in range(2))
        # x: node x runs after a moment; late + x: not before; first + b: b is in memory then.
        self.implied = Counter[tuple[int, int]]()
        for w, (control, reads) in enumerate(zip(self.control, self.reads, strict=True)):
            self.implied.update([(w, self.first + b) for b in reads])
            self.implied.update([(self.late + w, w), *[(x, self.late + w) for x in control]])
            for u in [*[x for x in control if x != w], *[self.producers[b] for b in reads]]:
                self.link(u, w, 1)
        self.pairs = {(a, b) for a, b in reuses if a not in self.kept}
        for a, b in self.pairs:
            legal = self.bytes[a] == self.bytes[b] and a in self.reads[self.producers[b]]
            _require(legal, f"reuses: buffer {b} cannot take over {a}")

    def link(self, u: int, w: int, sign: int) -> None:
        """Let a node come before another one, or no longer."""
        self.implied[self.late + u, self.late + w] += sign
        for row, other in ((self.after[u], w), (self.before[w], u)):
            row.append(other) if sign > 0 else row.pop()

    def held(self, needs: list[int]) -> list[int]:
        """Return what each node holds while it runs, where graphs that it calls need so much."""
        inner = [max([0, *[needs[k] - less for k, less, *_ in row]]) for row in self.calls]
        return [x + y for x, y in zip(self.scratch, inner, strict=True)]

    def replay(self, order: Any, needs: list[int], once: bool) -> list[Any]:
        """Return what has a place in an arena: all that is written, then what each step holds."""
        steps, takes, claimed = _fields(order, "steps takes peak")
        runs = sorted(steps if once else {*steps})
        _require(runs == [*range(1, self.first - 1)], "steps: each node runs, in an order once")
        latest, ran, closed, written = dict[int, int](), set[int](), set[int](), [[0, 0, 0]]
        for at, node in enumerate([0, *steps, self.first - 1], -1):
            ran.add(node)
            lacks = {*self.control[node]} - ran or {*self.reads[node]}.difference(latest)
            _require(not lacks and node not in closed, f"steps: node {node} cannot run at {at}")
            closed.update(self.control[node])
            for b in self.reads[node]:
                written[latest[b]][2] = min(at, len(steps) - 1)
            for b in self.makes[node]:
                latest[b] = len(written)
                written.append([b, max(at, 0), max(at, 0)])
        for (b, first, _), taken in zip(written[1:], takes, strict=True):
            a, _, last = written[taken]
            legal = not taken or ((a, b) in self.pairs and last == first)
            _require(legal, f"takes: buffer {b} cannot take over {a} at {first}")
            written[taken][2] -= 1
        held, change = self.held(needs), [0] * (len(steps) + 2)
        rows = [[self.bytes[b], 1, [], [[x, y]] if x <= y else []] for b, x, y in written[1:]]
        rows += [[held[x], 1, [], [[at, at]]] for at, x in enumerate(steps)]
        for size, first, last in [(size, *own[0]) for size, _, _, own in rows if own]:
            change[first] += size
            change[last + 1] -= size
        peak = max([0, *accumulate(change[: len(steps)])])
        _require(claimed == peak, f"peak: {peak:,} is what the order takes")
        return rows

    def cut(self, proof: Any, held: list[int], price: int, costs: list[int]) -> tuple[int, int]:
        """Return a step's own bytes, and the least that further bytes and nodes behind it cost."""
        v, cover, flow = _fields(proof, "node cover flow")
        ahead, behind = _reached(v, self.after), _reached(v, self.before)
        free = {a for a, b in self.pairs if self.producers[b] == v and not {a, b} & {*cover}}
        paid = {*self.makes[v], *self.reads[v]} - free
        own = sum([self.bytes[b] for b in paid]) - sum([self.bytes[b] for b in {*cover}]) + held[v]
        net, sent = Counter[int](), Counter[tuple[int, int]]()
        for tail, head, amount in flow:
            sent[tail, head] += amount
            net[tail] -= amount
            net[head] += amount
        for (tail, head), amount in sent.items():
            b, room = tail - self.first, costs[tail] if head == tail + self.late else 0
            if 0 <= b < len(self.bytes) and b not in paid and head == self.producers[b]:
                room = price * self.bytes[b]
            _require(amount <= room or self.implied[tail, head] > 0, f"flow: {tail} to {head}")
        sources = {x + y for x in {*ahead, self.first - 1} for y in (0, self.late)}
        sinks = {0, *[self.late + x for x in {*behind, v, 0}]} - sources
        lost = [x for x, amount in net.items() if amount and x not in sources and x not in sinks]
        _require(not lost, f"flow: {lost[:1]} gets more, or less, than it sends")
        return own, _ENDLESS if v in behind else sum([net[x] for x in sinks])  # endless: a circle

    def prove(self, proof: Any, held: list[int], budget: int) -> list[int]:
        """Return how many bytes a step takes at least; with a budget also value, price, rate."""
        if budget:
            price, rate, leaf = _fields(proof, "price rate leaf")
            return [*self.cut(leaf, held, price, [rate * x for x in self.seconds]), price, rate]
        bound, tree, costs = *_fields(proof, "bound tree"), [_ENDLESS] * self.first
        _walk(tree, self.late, self.link, lambda x: sum(self.cut(x, held, 1, costs)) >= bound)
        return [bound]


class _Orders:
    """Computations, callees first, in orders of low peaks; with a budget, nodes may run again."""

    def __init__(self, problem: Any) -> None:
        _, names, tick, graphs, most, rows = _fields(problem, "text names tick graphs budget arena")
        self.graphs = [_Graph(graph) for graph, _ in zip(graphs, names, strict=True)]
        self.arena = _Packing(rows) if rows else None  # of the program, callees written out
        self.given = sum(rows["regions"]) if rows else 0  # bytes that the last graph has before
        self.budget, self.tick = most and most + self.given, f"ticks of {tick}"[:40]
        self.UNIT = self.tick if most else "bytes"

    def check(self, plan: Any) -> int:
        """Return the height of the arena, or the peak; with a budget the cost of further runs."""
        if not plan:
            return _ENDLESS
        peaks, (*_, last) = list[int](), self.graphs
        if self.budget and plan.get("plan"):  # a program in which all runs are written out
            problem, inner = _fields(plan, "problem plan")
            program = _Orders(problem)
            size, ticks = program.check(inner) + self.given, sum(program.graphs[-1].seconds)
            _require([program.tick, program.budget] == [self.tick, 0], "plan: ticks or budget")
        else:
            orders, arena = _fields(plan, "orders arena")
            for graph, order in zip(self.graphs, orders, strict=True):
                rows = graph.replay(order, peaks, once=graph is not last or not self.budget)
                peaks.append(order["peak"])
            size, ticks = peaks[-1], sum([last.seconds[x] for x in order["steps"]])
            if arena:
                takes, places = [] if self.arena else order["takes"], arena["places"]
                stays = [places[a - 1] == x for a, x in zip(takes, places, strict=False) if a]
                _require(all(stays), "places: what is taken over moves")
                packing = self.arena or _Packing({"buffers": rows, "regions": []})
                size = packing.check(arena) + self.given
            _require(peaks[-1] <= size, "height: the order takes more")
        _require(size <= (self.budget or size), f"budget: the plan takes {size:,} bytes")
        return max(0, ticks - sum(last.seconds) if self.budget else size - self.given)

    def prove(self, evidence: Any) -> int:
        """Return the least that may take the place of what `check` returns."""
        needs, cuts = list[int](), list[list[int]]()
        for graph, proof in zip(self.graphs, evidence, strict=True):
            cuts.append([*graph.prove(proof, graph.held(needs), self.budget), 0, 0, 0][:4])
            needs.append(cuts[-1][0] + (cuts[-1][3] == 0) * (cuts[-1][1] // (cuts[-1][2] or 1)))
        if not self.budget:
            return max(0, needs[-1] - self.given)
        # From callers to callees: how often each one runs, and the bytes that are left for it.
        least, runs, room = 0, {len(cuts) - 1: 1}, {len(cuts) - 1: self.budget}
        for k, graph in reversed([*enumerate(self.graphs)]):
            own, value, price, rate = cuts[k]
            lost = max(0, -((price * (room[k] - own) - value) * _ENDLESS // (rate * _ENDLESS or 1)))
            least += runs[k] * lost if own <= room[k] else _ENDLESS  # at a rate of 0, runs are free
            for v, row in enumerate(graph.calls):
                left = room[k] - graph.scratch[v] - sum([graph.bytes[b] for b in {*graph.reads[v]}])
                for callee, less, *times in row:
                    runs[callee] = runs.get(callee, 0) + runs[k] * sum(times)
                    room[callee] = max(room.get(callee, 0), left + less)
        return min(least, _ENDLESS)


_KINDS: Final[Any] = {"offsets": _Packing, "objects": _Sharing, "order": _Orders}


if __name__ == "__main__":
    try:
        with open(0 if sys.argv[1] == "-" else sys.argv[1], "rb") as stream:
            verdict = check(stream.read())
    except (IndexError, OSError) as error:
        sys.exit(f"usage: checker.py CERTIFICATE, a file or -: {error}")
    print(f"{verdict.answer}: {verdict.detail}")
    sys.exit(EXIT_STATUS[verdict.answer])
