"""Memory that orders of a module need, counted step by step: no code of the planner is used.

A module is run on symbols: one for each array that is made. A symbol takes its bytes from the step
that makes it to the last one that reads it. Where an operation may write over an operand that
nothing reads any more, the two count once at that step.
"""

from collections import Counter
from itertools import product

from lowtide.ir import Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.ops.in_place import may_share

NAMES = {Opcode.BITCAST, Opcode.OPTIMIZATION_BARRIER, Opcode.ADD_DEPENDENCY, Opcode.DOMAIN}
ASYNC = {Opcode.ASYNC_START, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE}
MOST_BRANCHES = 48
TRIPS = 2


class NotSimulatedError(Exception):
    """A module has what the machine does not run."""


def conditionals(module):
    return [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.CONDITIONAL
    ]


def needed_bytes(module, sequences):
    """What an order needs beyond the arguments, for the worst of all branches."""
    sites = conditionals(module)
    ways = [range(len(x.called_computations)) for x in sites]
    choices = list(product(*ways))
    if len(choices) > MOST_BRANCHES:
        raise NotSimulatedError
    return max([OrderMachine(module, sequences, dict(zip(sites, x, strict=True))).peak()
                for x in choices])  # fmt: skip


class OrderMachine:
    """One run: loops go round twice, conditionals take the branches that are chosen."""

    def __init__(self, module, sequences, branches):
        self.module = module
        self.sequences = sequences
        self.branches = branches
        self.bytes = []
        self.born = []
        self.last = []
        self.pairs = {}
        self.heir = {}
        """What takes the place of a symbol in the state of a loop: nothing else may."""
        self.step = 0
        self.given = 0

    def peak(self):
        entry = self.module.entry
        donated = {(a.parameter, a.parameter_index)
                   for a in self.module.input_output_aliases}  # fmt: skip
        environment = {}
        for number, parameter in enumerate(entry.parameters):
            symbols = []
            for index, shape in parameter.shape.leaves():
                is_donated = (number, index) in donated
                symbols.append(self.make(shape.leaf_nbytes if is_donated else 0))
                self.given += shape.leaf_nbytes if is_donated else 0
            environment[parameter] = symbols
        outputs = self.run(entry, environment)
        self.step += 1
        self.kept(outputs)
        return max(0, self.highest() - self.given)

    def make(self, nbytes):
        self.bytes.append(nbytes)
        self.born.append(self.step)
        self.last.append(self.step)
        return len(self.bytes) - 1

    def read(self, symbol):
        self.last[symbol] = self.step

    def highest(self):
        change = Counter()
        for nbytes, born, last in zip(self.bytes, self.born, self.last, strict=True):
            change[born] += nbytes
            change[last + 1] -= nbytes
        live = most = 0
        for step in range(self.step + 1):
            live += change[step]
            most = max(most, live - self.saved(step))
        return most

    def saved(self, step):
        """The bytes that count once at a step: results over operands, each in one pair."""
        taken, total = set(), 0
        for operand, result in sorted(self.pairs.get(step, ()), key=lambda x: -self.bytes[x[0]]):
            dies = self.last[operand] == step and self.born[operand] < step
            dies = dies and self.heir.get(operand, result) == result
            if dies and not taken & {("read", operand), ("made", result)}:
                taken |= {("read", operand), ("made", result)}
                total += self.bytes[operand]
        return total

    # -- instructions ----------------------------------------------------------------------------

    def run(self, computation, environment):
        for x in self.sequences[computation]:
            if x.opcode is not Opcode.PARAMETER:
                environment[x] = self.instruction(x, [environment[y] for y in x.operands])
        return environment[computation.root]

    def instruction(self, x, operands):
        if x.opcode in ASYNC or x.opcode in (Opcode.COPY_START, Opcode.COPY_DONE):
            raise NotSimulatedError
        if x.opcode is Opcode.TUPLE:
            return [symbol for symbols in operands for symbol in symbols]
        if x.opcode in NAMES:
            return operands[0]
        if x.opcode is Opcode.GET_TUPLE_ELEMENT:
            return self.element(x, operands[0])
        if x.opcode is Opcode.CALL:
            given = [symbol for symbols in operands for symbol in symbols]
            return self.callee(x.called_computations[0], given)
        if x.opcode is Opcode.WHILE:
            return self.loop(x, operands[0])
        if x.opcode is Opcode.CONDITIONAL:
            self.step += 1
            self.read(operands[0][0])
            branch = self.branches[x]
            return self.kept(self.callee(x.called_computations[branch], operands[branch + 1]))
        return self.plain(x, operands)

    def element(self, x, symbols):
        index = x.attributes_as(GetTupleElement).index
        counts = [len(list(shape.leaves())) for shape in x.operands[0].shape.tuple_shapes]
        start = sum(counts[:index])
        return symbols[start : start + counts[index]]

    def callee(self, computation, symbols):
        environment, rest = {}, list(symbols)
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            environment[parameter], rest = rest[:count], rest[count:]
        return self.run(computation, environment)

    def loop(self, x, state):
        condition, body = x.called_computations
        self.kept(state)
        for _ in range(TRIPS):
            (symbol,) = self.callee(condition, state)
            self.read(symbol)
            after = self.kept(self.callee(body, state))
            self.hold_places(state, after)
            state = after
        (symbol,) = self.callee(condition, state)
        self.read(symbol)
        return self.kept(state)

    def hold_places(self, state, after):
        """The state of a loop keeps its places: what is dead stays until the next one is made."""
        for old, new in zip(state, after, strict=True):
            if old != new:
                self.last[old] = max(self.last[old], self.born[new] - 1)
                self.heir[old] = new

    def kept(self, symbols):
        """Read symbols that are all there at once, since each has a place that others know."""
        for symbol in symbols:
            self.read(symbol)
        return symbols

    def plain(self, x, operands):
        self.step += 1
        for symbols in operands:
            for symbol in symbols:
                self.read(symbol)
        leaves = list(x.shape.leaves())
        is_constant = x.opcode is Opcode.CONSTANT
        made = [self.make(0 if is_constant else shape.leaf_nbytes) for _, shape in leaves]
        places = {index: made[i] for i, (index, _) in enumerate(leaves)}
        rows = []
        for (number, index), output in may_share(x):
            indices = [i for i, _ in x.operands[number].shape.leaves()]
            if index in indices and output in places:
                operand = operands[number][indices.index(index)]
                if 0 < self.bytes[operand] == self.bytes[places[output]]:
                    rows.append((operand, places[output]))
        self.pairs[self.step] = rows
        return made
