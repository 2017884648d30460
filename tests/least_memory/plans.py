"""Plans of random compilations of a program: what is stored, by which kernels, in an order.

Each is one of the class of docs/optimality.md, so none may need less than the bound. Nothing of the
bound's network is used: a plan is simulated, kernel by kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from lowtide.analysis.call_graph import while_body
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import asked_donations
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.least_memory.kinds import Kind, runs_behind
from lowtide.least_memory.values import ProgramValues, values_of


@dataclass
class Kernel:
    """What is stored that it reads, and what it stores; `around` runs once, None for none."""

    reads: set[int]
    makes: set[int]
    around: int | None


class RandomPlans:
    """Plans of a module at the stage "layout", drawn at random."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.flows: Dataflow = dataflow(module.entry)
        flow = self.flows[module.entry]
        self.offered = set()
        for asked in asked_donations(module):
            leaves = [index for index, _ in asked.instruction.shape.leaves()]
            for index, value in zip(leaves, flow.leaves_of(asked.instruction), strict=True):
                if index[: len(asked.index)] == asked.index:
                    self.offered.add(value)
        self.lasting = {*flow.parameters} - self.offered
        self.lasting_bytes = sum([flow.value_bytes[v] for v in self.lasting])
        self._kept: dict[tuple[Computation, frozenset[int]], Drawn] = {}

    def nbytes(self, random: Random) -> int:
        """Return what the next plan needs, arguments included."""
        return self.lasting_bytes + self._of(self.module.entry, frozenset(self.lasting), random)

    def _of(self, computation: Computation, lasting: frozenset[int], random: Random) -> int:
        key = computation, lasting
        if key not in self._kept:
            self._kept[key] = Drawn(values_of(self.flows[computation], lasting))
        drawn = self._kept[key]
        inner = {}
        for number, x in enumerate(drawn.values.instructions):
            if x.opcode is Opcode.WHILE:
                inner[number] = self._loop(computation, x, drawn.values.makes[number], random)
            elif x.opcode is Opcode.CONDITIONAL:
                inner[number] = self._branches(computation, x, drawn, number, random)
        return drawn.peak(inner, random)

    def _loop(self, caller: Computation, x: Instruction, makes, random: Random):
        """What a loop needs inside, and whose bytes are in that."""
        body = self.flows[while_body(x)]
        changed = set(body.changed_state)
        lasting = frozenset([v for k, v in enumerate(body.parameters) if k not in changed])
        initial = self.flows[caller].leaves_of(x.operands[0])
        return self._of(body.computation, lasting, random), {initial[k] for k in changed} | {*makes}

    def _branches(self, caller: Computation, x: Instruction, drawn, number: int, random: Random):
        most = 0
        for branch, operand in zip(x.called_computations, x.operands[1:], strict=True):
            given = self.flows[caller].leaves_of(operand)
            pairs = zip(self.flows[branch].parameters, given, strict=True)
            lasting = frozenset([v for v, outer in pairs if not drawn.values.nbytes[outer]])
            most = max(most, self._of(branch, lasting, random))
        return most, {*drawn.values.reads[number], *drawn.values.makes[number]}


class Drawn:
    """Plans of one computation."""

    def __init__(self, values: ProgramValues) -> None:
        self.values = values
        self.nbytes = values.nbytes.tolist()
        self.maker = {v: o for o, made in enumerate(values.makes) for v in made}
        self.readers: dict[int, list[int]] = {}
        for o, reads in enumerate(values.reads):
            for v in reads:
                self.readers.setdefault(v, []).append(o)
        self.once = [o for o, kind in enumerate(values.kinds) if kind is not Kind.FREE]
        self.free = [o for o, kind in enumerate(values.kinds) if kind is Kind.FREE]
        self.order = self._operands_first()

    def _operands_first(self) -> list[int]:
        waiting = [len({self.maker[v] for v in x if v in self.maker}) for x in self.values.reads]
        order = [o for o, count in enumerate(waiting) if not count]
        for o in order:
            for reader in {r for v in self.values.makes[o] for r in self.readers.get(v, ())}:
                waiting[reader] -= 1
                if not waiting[reader]:
                    order.append(reader)
        return order

    def peak(self, inner: dict[int, tuple[int, set[int]]], random: Random) -> int:
        """Return what a plan needs; `inner` has what operations need that call something."""
        kernels = self._kernels(random)
        order = self._sequence(kernels, random)
        last = {}
        for step, k in enumerate(order):
            for v in kernels[k].reads:
                last[v] = step
        kept = self.values.kept
        live = {v for v in self.values.given if v in last or v in kept}
        size = sum([self.nbytes[v] for v in self.values.given])
        most, size = size, sum([self.nbytes[v] for v in live])
        for step, k in enumerate(order):
            kernel = kernels[k]
            fresh = kernel.makes - live
            made = sum([self.nbytes[v] for v in fresh])
            gone = {
                v for v in (kernel.reads | kernel.makes) & (live | fresh)
                if last.get(v, -1) <= step and v not in kept
            }  # fmt: skip
            left = size + made - sum([self.nbytes[v] for v in gone])
            around = kernel.around
            if around is not None and self.values.kinds[around] is Kind.APART:
                most = max(most, size + made)
            else:
                needed = sum([self.nbytes[v] for v in gone & fresh])
                most = max(most, size, left + needed)
            if around in inner:
                inside, own = inner[around]
                rest = (live | fresh) - own
                staying = [v for v in rest if v in kept or last.get(v, -1) > step]
                most = max(most, inside + sum([self.nbytes[v] for v in staying]))
            live = (live | fresh) - gone
            size = left
        return most

    def _kernels(self, random: Random) -> list[Kernel]:
        """What is stored, and the kernels that store it."""
        values = self.values
        share = random.choice((0.0, 0.02, 0.2, 0.6))
        stored = {o for o in self.free if random.random() < share}
        stored |= {self.maker[v] for v in values.kept if v in self.maker}
        behind: dict[int, set[int]] = {}
        for o in self.once:
            readers = {r for v in values.makes[o] for r in self.readers.get(v, ())}
            joined = all(
                values.kinds[r] is Kind.FREE
                and runs_behind(values.instructions[r])
                and all(self.maker.get(v, o) == o for v in values.reads[r])
                for r in readers
            )
            if joined and not {*values.makes[o]} & values.kept and random.random() < 0.5:
                behind[o] = readers
        hosts = {r: o for o, readers in behind.items() for r in readers}
        stored = (stored - {*hosts}) | {o for o in self.once if o not in behind}
        needs: dict[int, set[int]] = {}  # Of a value, what is stored that it is computed of.
        kernels = []
        for o in self.order:
            reads = set[int]().union(*[needs.get(v, {v}) for v in values.reads[o]])
            makes = {*values.makes[o]}
            if values.kinds[o] is not Kind.FREE:
                made = makes if o not in behind else set[int]()
                for r in behind.get(o, ()):
                    made |= {*values.makes[r]}
                    reads |= {v for v in values.reads[r] if v not in self.maker}
                kernels.append(Kernel(reads, made, o))
            elif o in stored:
                kernels.append(Kernel(reads, makes, None))
            elif o not in hosts:
                needs |= dict.fromkeys(makes, reads)
        return kernels

    def _sequence(self, kernels: list[Kernel], random: Random) -> list[int]:
        """An order of kernels: each result as late as its first reader lets it, results mixed."""
        maker = {v: k for k, kernel in enumerate(kernels) for v in kernel.makes}
        ends = [*range(len(kernels))]
        if random.random() < 0.5:
            random.shuffle(ends)
        placed: dict[int, None] = {}
        for end in ends:
            todo = [end]
            while todo:
                k = todo[-1]
                ahead = sorted({maker[v] for v in kernels[k].reads if v in maker} - {*placed, k})
                if not ahead or k in placed:
                    placed.setdefault(todo.pop())
                else:
                    random.shuffle(ahead)
                    todo += ahead
        return [*placed]
