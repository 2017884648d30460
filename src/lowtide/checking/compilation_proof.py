"""Check a certificate of kind "compilation": that no compilation of a program needs less.

docs/certificates.md has its format, docs/optimality.md the theorem that it rests on. This file
needs the standard library only, and shares no code with what searches for the bound.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from itertools import chain
from typing import Any, Final, NamedTuple

VALID, REJECTED = "valid", "rejected"
EXIT_STATUS: Final = {VALID: 0, REJECTED: 4}
KIND: Final = "compilation"

_COMPACT: Final[Any] = {"separators": (",", ":")}
_ENDLESS: Final = 2**99


class CompilationVerdict(NamedTuple):
    """The answer; where it is "valid", no compilation needs less than `bound` bytes."""

    answer: str
    detail: str
    bound: int = 0


def check_compilation(data: bytes) -> CompilationVerdict:
    """Return what a certificate is worth, given the bytes of its file."""
    try:
        bound = _check(data)
    except Exception as error:  # what cannot be followed to its end is not shown
        kind = "" if type(error) is ValueError else f"malformed, {type(error).__name__}: "
        return CompilationVerdict(REJECTED, ascii(f"{kind}{error}")[1:-1][:250])
    told = f"no compilation needs less than {bound:,} bytes beyond its arguments"
    return CompilationVerdict(VALID, told, bound)


def _require(holds: object, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def _fields(section: Any, names: str) -> list[Any]:
    known = isinstance(section, dict) and sorted(section) == sorted(names.split())
    _require(known, f"expected an object with the fields {names}")
    return [section[name] for name in names.split()]


def _check(data: bytes) -> int:
    """Return the bound, after all that is said is checked."""
    text = data.decode().removesuffix("\n")
    document = json.loads(text)
    # All numbers are whole and from 0 on: one out of range is an error when it is looked up.
    plain = {*re.sub(r'"[ !#-\[\]-~]*"', "", text)} <= {*"[]{}:,0123456789"}
    _require(plain and text == json.dumps(document, **_COMPACT), "unusual JSON")
    names = "schema kind problem plan bound evidence sha256"
    schema, kind, problem, plan, claimed, evidence, digest = _fields(document, names)
    _require(schema == "lowtide.certificate/2", "schema: unknown")
    _require(kind == KIND, f"kind: expected {KIND}")
    _require(plan == {}, "plan: expected none")
    (forms,) = _fields(problem, "forms")
    _require(forms, "forms: expected one at least")
    # A program may be compiled from any of its forms, so the least of their bounds holds.
    bound = min([_of_form(form, steps) for form, steps in zip(forms, evidence, strict=True)])
    _require(claimed == bound, f"bound: {claimed} is claimed, {bound} is what is proved")
    del document["sha256"]
    content = json.dumps(document, sort_keys=True, **_COMPACT).encode()
    _require(digest == hashlib.sha256(content).hexdigest(), "sha256: not that of the content")
    return bound


def _of_form(form: Any, steps: Any) -> int:
    """Return what a form of the program needs beyond its arguments at the moment of the steps.

    The first one is of the entry, each further one of what the operation before it runs.
    """
    _, arguments, lasting, sections = _fields(form, "text arguments lasting computations")
    needs, last = lasting, len(steps) - 1
    callees: list[str] | None = None
    for k, (section, step) in enumerate(zip(sections, steps, strict=True)):
        program = _Program(section)
        _require(callees is None or program.name in callees, f"{program.name} is not what runs")
        at, when, flow = _fields(step, "at when flow")
        _require((when == "inside") == (k < last), f"step {k}: unexpected {when}")
        needs += program.least(at, when, flow)
        callees = program.inside[at] if when == "inside" else []
    _require(steps, "evidence: expected one step at least")
    return max(0, int(needs - arguments))


class _Program:
    """Operations and values of a computation, and the network of docs/optimality.md.

    Value v is node v, "is read later". Operation o is node `later + o`, "computes later", and
    `absent + o`, "needs what is not there yet"; the two are one where it runs once.
    """

    def __init__(self, section: Any) -> None:
        self.name, rows, self.bytes, self.kept = _fields(section, "name operations bytes kept")
        columns: Any = zip(*rows, strict=True) if rows else [()] * 6
        _, self.how, self.reads, self.makes, self.without, self.inside = columns
        _require({*self.how} <= {*_HOW}, f"operations: each is one of {', '.join(_HOW)}")
        count = len(self.bytes)
        _require(sorted(chain(*self.makes)) == [*range(count)], "operations: one maker each")
        self.maker = {v: o for o, made in enumerate(self.makes) for v in made}
        self.later, self.absent, self.sink = count, count + len(rows), count + 2 * len(rows)
        self.readers: list[list[int]] = [[] for _ in self.bytes]
        self.implied: set[tuple[int, int]] = set()
        for o, how in enumerate(self.how):
            _require(how != "given" or not self.reads[o], f"operation {o}: what is given reads")
            for v in self.reads[o]:
                self.readers[v].append(o)
                self.implied.add((self.later + o, v))
                if self.how[self.maker[v]] != "given":
                    self.implied.add((self.is_absent(self.maker[v]), self.is_absent(o)))
            if self.runs_again(o):
                self.implied.add((self.absent + o, self.later + o))

    def runs_again(self, o: int) -> bool:
        """Whether an operation may run any number of times."""
        return self.how[o] in ("free", "behind")

    def is_absent(self, o: int) -> int:
        """Return the node that says that a result cannot be had yet."""
        return (self.absent if self.runs_again(o) else self.later) + o

    def behind(self, n: int) -> set[int]:
        """Return the nodes of the nearest readers whose results the kernel of n cannot have."""
        found, seen, todo = set[int](), {n}, [n]
        while todo:
            for reader in {x for v in self.makes[todo.pop()] for x in self.readers[v]} - seen:
                seen.add(reader)
                if self.how[reader] == "behind":
                    todo.append(reader)
                else:
                    found.add(self.is_absent(reader))
        return found

    def ends(self, n: int, when: str) -> tuple[set[int], set[int]]:
        """Return the nodes that hold at a moment of n, and those that do not."""
        own = {self.later + n}
        if when == "before":
            makers = {self.maker[v] for v in self.reads[n]}
            return own, {self.is_absent(o) for o in makers if self.how[o] != "given"}
        _require(when in ("after", "during", "inside"), f"when: unknown, {when}")
        _require(when != "during" or self.how[n] == "apart", f"operation {n} may be in place")
        return self.behind(n) | ({*self.reads[n]} if when == "during" else set()), own

    def least(self, n: int, when: str, flow: Any) -> int:
        """Return the bytes that a flow shows to be in memory at a moment of operation n.

        What is needed and not computed later is stored: no flow from what holds to what does not
        is larger than the bytes of all such values.
        """
        if when == "end":
            _require(not flow, "flow: none at the end")
            return sum([self.bytes[v] for v in {*self.kept}])
        _require(self.how[n] in ("once", "apart"), f"operation {n} may run any number of times")
        _require(when != "inside" or self.inside[n], f"operation {n} runs nothing")
        free_of_charge = {*self.without[n]} if when == "inside" else set()
        net, sent = Counter[int](), Counter[tuple[int, int]]()
        for tail, head, amount in flow:
            sent[tail, head] += amount
            net[tail] -= amount
            net[head] += amount
        for (tail, head), amount in sent.items():
            room = _ENDLESS if (tail, head) in self.implied else 0
            if tail < self.later and head == self.stored(tail):
                room = 0 if tail in free_of_charge else self.bytes[tail]
            _require(amount <= room, f"flow: {tail} to {head} has more than its room, {room:,}")
        sources, sinks = self.ends(n, when)
        sources |= {*self.kept}
        sinks = (sinks | {self.sink}) - sources
        lost = [x for x, amount in net.items() if amount and x not in sources | sinks]
        _require(not lost, f"flow: {lost[:1]} gets more, or less, than it sends")
        return sum([net[x] for x in sinks])

    def stored(self, v: int) -> int:
        """Return the head of the arc whose cut stores a value: its maker, or the sink."""
        maker = self.maker[v]
        return self.sink if self.how[maker] == "given" else self.later + maker


_HOW: Final = ("given", "free", "behind", "once", "apart")


if __name__ == "__main__":
    try:
        with open(0 if sys.argv[1] == "-" else sys.argv[1], "rb") as stream:
            verdict = check_compilation(stream.read())
    except (IndexError, OSError) as problem:
        sys.exit(f"usage: compilation_proof.py CERTIFICATE, a file or -: {problem}")
    print(f"{verdict.answer}: {verdict.detail}")
    sys.exit(EXIT_STATUS[verdict.answer])
