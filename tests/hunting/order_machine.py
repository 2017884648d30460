"""Memory that orders of a module need, counted step by step: no code of the planner is used.

A module is run on symbols: one for each array that is made. A symbol takes its bytes from the step
that makes it to the last one that reads it. Where an operation may write over an operand that
nothing reads any more, the two lie in one place (`places`) and count once at that step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, product
from math import prod
from typing import Final, final

from tests.hunting.places import Places

from lowtide.analysis.donation import aliases
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.ops.may_share import sharing_pairs

Symbols = list[int]
Sequences = Mapping[Computation, Sequence[Instruction]]

_NAMES: Final = frozenset(
    {Opcode.BITCAST, Opcode.OPTIMIZATION_BARRIER, Opcode.ADD_DEPENDENCY, Opcode.DOMAIN}
)
_NOT_SIMULATED: Final = frozenset(
    {
        *(Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE),
        *(Opcode.COPY_START, Opcode.COPY_DONE),
    }
)
MOST_WAYS: Final = 48
"""So many ways through the conditionals of a module are tried; with more of them, none is."""

_TRIPS: Final = 2


def is_simulated(module: Module) -> bool:
    """Whether the machine runs a module: one without asynchronous parts and with few branches."""
    instructions = [x for c in module.computations.values() for x in c.instructions.values()]
    if any(x.opcode in _NOT_SIMULATED for x in instructions):
        return False
    return prod([len(x.called_computations) for x in _conditionals(module)]) <= MOST_WAYS


def needed_bytes(module: Module, sequences: Sequences) -> int:
    """Return what an order needs beyond the arguments, for the worst of all branches.

    The order has to need no other copies than the module has, which `is_simulated`.
    """
    sites = _conditionals(module)
    ways = product(*[range(len(x.called_computations)) for x in sites])
    return max(
        [OrderMachine(module, sequences, dict(zip(sites, x, strict=True))).peak() for x in ways]
    )


def _conditionals(module: Module) -> list[Instruction]:
    return [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.CONDITIONAL
    ]


@final
class OrderMachine:
    """One run: loops go round twice, conditionals take the branches that are chosen."""

    def __init__(
        self, module: Module, sequences: Sequences, branches: Mapping[Instruction, int]
    ) -> None:
        self._module = module
        self._sequences = sequences
        self._branches = branches
        self._bytes: list[int] = []
        self._born: list[int] = []
        self._last: list[int] = []
        self._pairs: dict[int, list[tuple[int, int]]] = {}
        self._heir: dict[int, int] = {}
        """What takes the place of a symbol in the state of a loop."""
        self._left: dict[int, int] = {}
        """The output that is written over an argument."""
        self._step = 0
        self._reads: dict[Computation, list[int]] = {}

    def peak(self) -> int:
        """Return the most bytes at any step, less those of arguments that are written over."""
        entry = self._module.entry
        donated = {x.parameter: x.output for x in aliases(self._module)}
        environment: dict[Instruction, Symbols] = {}
        arguments: Symbols = []
        for parameter in entry.parameters:
            symbols = []
            for _, shape in parameter.shape.leaves():
                is_left = len(arguments) in donated
                symbols.append(self._make(shape.leaf_nbytes if is_left else 0))
                arguments.append(symbols[-1])
            environment[parameter] = symbols
        outputs = self._run(entry, environment)
        self._step += 1
        self._kept(outputs)
        self._left = {arguments[leaf]: outputs[output] for leaf, output in donated.items()}
        return max(0, self._highest() - sum([self._bytes[x] for x in arguments]))

    # -- memory --------------------------------------------------------------------------------

    def _make(self, nbytes: int) -> int:
        self._bytes.append(nbytes)
        self._born.append(self._step)
        self._last.append(self._step)
        return len(self._bytes) - 1

    def _kept(self, symbols: Symbols) -> Symbols:
        """Read symbols that are all there at once, since each has a place that others know."""
        for symbol in symbols:
            self._last[symbol] = self._step
        return symbols

    def _highest(self) -> int:
        pairs = [
            (operand, result)
            for step in sorted(self._pairs)
            for operand, result in sorted(self._pairs[step], key=lambda x: -self._bytes[x[0]])
            if self._last[operand] == step and self._born[operand] < step
        ]
        places = Places(self._born, self._last, pairs)
        for leaves in (self._heir, self._left):
            for symbol, heir in leaves.items():
                places.bind(symbol, heir)
        for operand, result in pairs:
            places.unite(operand, result)
        change: Counter[int] = Counter()
        for symbols, stretches in places.taken():
            nbytes = max([self._bytes[x] for x in symbols])
            for born, last in stretches:
                change[born] += nbytes
                change[last + 1] -= nbytes
        return max(accumulate([change[step] for step in range(self._step + 1)]))

    # -- instructions --------------------------------------------------------------------------

    def _run(self, computation: Computation, environment: dict[Instruction, Symbols]) -> Symbols:
        for x in self._sequences[computation]:
            if x.opcode is not Opcode.PARAMETER:
                environment[x] = self._instruction(x, [environment[y] for y in x.operands])
        return environment[computation.root]

    def _instruction(self, x: Instruction, operands: list[Symbols]) -> Symbols:
        if x.opcode is Opcode.TUPLE:
            return [symbol for symbols in operands for symbol in symbols]
        if x.opcode in _NAMES:
            return operands[0]
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            return _element(x, operands[0])
        if x.opcode is Opcode.CALL:
            given = [symbol for symbols in operands for symbol in symbols]
            return self._callee(x.called_computations[0], given)
        if x.opcode is Opcode.WHILE:
            return self._loop(x, operands[0])
        if x.opcode is Opcode.CONDITIONAL:
            self._step += 1
            self._kept(operands[0])
            for callee, symbols in zip(x.called_computations, operands[1:], strict=True):
                self._kept(self._read_by(callee, symbols))  # Any of them may be chosen by then.
            branch = self._branches[x]
            return self._kept(self._callee(x.called_computations[branch], operands[branch + 1]))
        return self._plain(x, operands)

    def _read_by(self, computation: Computation, symbols: Symbols) -> Symbols:
        """Those of the symbols given to a computation that it reads or returns."""
        places = self._reads.get(computation)
        if places is None:
            trial = OrderMachine(self._module, self._sequences, self._branches)
            given = [trial._make(1) for _ in symbols]
            returned = trial._callee(computation, given)
            places = [i for i, x in enumerate(given) if trial._last[x] or x in returned]
            self._reads[computation] = places
        return [symbols[i] for i in places]

    def _callee(self, computation: Computation, symbols: Symbols) -> Symbols:
        environment: dict[Instruction, Symbols] = {}
        rest = symbols
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            environment[parameter], rest = rest[:count], rest[count:]
        return self._run(computation, environment)

    def _loop(self, x: Instruction, state: Symbols) -> Symbols:
        condition, body = x.called_computations
        self._kept(state)
        for _ in range(_TRIPS):
            self._kept(self._callee(condition, state))
            after = self._kept(self._callee(body, state))
            self._hold_places(state, after)
            state = after
        self._kept(self._callee(condition, state))
        return self._kept(state)

    def _hold_places(self, state: Symbols, after: Symbols) -> None:
        """The state of a loop keeps its places: what is dead stays until the next one is made."""
        for old, new in zip(state, after, strict=True):
            if old != new:
                self._last[old] = max(self._last[old], self._born[new] - 1)
                self._heir[old] = new

    def _plain(self, x: Instruction, operands: list[Symbols]) -> Symbols:
        self._step += 1
        for symbols in operands:
            self._kept(symbols)
        leaves = list(x.shape.leaves())
        is_constant = x.opcode is Opcode.CONSTANT
        made = [self._make(0 if is_constant else shape.leaf_nbytes) for _, shape in leaves]
        places = {index: made[i] for i, (index, _) in enumerate(leaves)}
        rows = []
        for (number, place), output in sharing_pairs(x):
            indices = [i for i, _ in x.operands[number].shape.leaves()]
            if place in indices and output in places:
                operand, result = operands[number][indices.index(place)], places[output]
                if 0 < self._bytes[operand] == self._bytes[result]:
                    rows.append((operand, result))
        self._pairs[self._step] = rows
        return made


def _element(x: Instruction, symbols: Symbols) -> Symbols:
    index = x.attributes_as(GetTupleElement).index
    counts = [len(list(shape.leaves())) for shape in x.operands[0].shape.tuple_shapes]
    start = sum(counts[:index])
    return symbols[start : start + counts[index]]
