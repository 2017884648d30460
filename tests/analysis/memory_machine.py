"""A machine that runs a plan on symbols: it sees whether any value is overwritten too early.

It knows the plan (a scheduled module and its `BufferAssignment`) and the meaning of structural
operations; it shares no code with the analyses that made the plan. A value is a symbol: a number
that stands for "this operation on these symbols". Memory maps byte ranges to symbols. Each operand
is read from memory and compared with what it has to be.
"""

from lowtide.ir import Opcode
from lowtide.ir.attributes import CustomCall, GetTupleElement

WRITES_OPERAND_0 = {Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER}
PASSES_ON = {Opcode.BITCAST, Opcode.OPTIMIZATION_BARRIER, Opcode.ADD_DEPENDENCY, Opcode.DOMAIN}
MAY_PASS_ON = {Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CUSTOM_CALL, Opcode.COPY}
"""Operations that the plan may treat as a new name for their operand: then both share a slice."""


class MemoryMachine:
    """Runs the entry of a module once; loops go round `trips` times, conditionals take `branch`."""

    def __init__(self, plan, trips=2, branch=0):
        self.module = plan.module
        self.sequences = plan.module.schedule.sequences
        self.assignment = assignment = plan.assignment
        self.trips = trips
        self.branch = branch
        self.memory = [[] for _ in assignment.allocations]
        self.symbols = {}
        self.site_numbers = {}
        for number, site in enumerate(assignment.call_sites):
            self.site_numbers.setdefault((site.parent, site.caller), []).append(number)
        self.reads = 0

    def run(self):
        entry = self.module.entry
        arguments = {}
        for allocation in self.assignment.allocations:
            if allocation.kind == "argument":
                symbol = self.symbol(("argument", allocation.parameter))
                arguments[allocation.parameter] = symbol
                self.write_range(allocation.index, 0, allocation.nbytes, symbol)
            if allocation.kind == "constant":
                symbol = self.symbol(("constant", allocation.constant))
                self.write_range(allocation.index, 0, allocation.nbytes, symbol)
        results = self.computation(entry, 0, self.split(entry, list(arguments.values())))
        for where, symbol in zip(self.assignment.outputs, results, strict=True):
            self.expect(where, symbol, "the result")
        self.check_read_only(arguments)

    def split(self, computation, symbols):
        """Symbols of all parameter leaves, by parameter."""
        found, rest = {}, list(symbols)
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            found[parameter], rest = rest[:count], rest[count:]
        assert not rest
        return found

    def check_read_only(self, arguments):
        for allocation in self.assignment.allocations:
            if allocation.kind == "argument" and allocation.output is None and allocation.nbytes:
                held = self.memory[allocation.index]
                assert held == [(0, allocation.nbytes, arguments[allocation.parameter])]

    # -- memory --------------------------------------------------------------------------------

    def symbol(self, key):
        return self.symbols.setdefault(key, len(self.symbols))

    def write_range(self, allocation, start, end, symbol):
        assert start >= 0 and end <= self.assignment.allocations[allocation].nbytes
        kept = []
        for a, b, held in self.memory[allocation]:
            if b <= start or end <= a:
                kept.append((a, b, held))
        if end > start:
            kept.append((start, end, symbol))
        self.memory[allocation] = kept

    def write(self, where, symbol):
        if where.nbytes:
            self.write_range(where.allocation, where.offset, where.offset + where.nbytes, symbol)

    def read(self, where):
        key = (where.offset, where.offset + where.nbytes)
        return next((s for a, b, s in self.memory[where.allocation] if (a, b) == key), None)

    def expect(self, where, symbol, what):
        if where.nbytes:
            self.reads += 1
            assert self.read(where) == symbol, f"{what}: overwritten before it is read"

    # -- computations --------------------------------------------------------------------------

    def computation(self, computation, site, environment):
        environment = dict(environment)
        for instruction in self.sequences[computation]:
            if instruction.opcode is not Opcode.PARAMETER:
                environment[instruction] = self.step(instruction, site, environment)
        return environment[computation.root]

    def step(self, instruction, site, environment):
        operands = [environment[x] for x in instruction.operands]
        opcode = instruction.opcode
        if opcode is Opcode.TUPLE:
            return [symbol for symbols in operands for symbol in symbols]
        if opcode in PASSES_ON:
            return operands[0]
        if opcode is Opcode.GET_TUPLE_ELEMENT:
            index = instruction.attributes_as(GetTupleElement).index
            shapes = instruction.operands[0].shape.tuple_shapes
            counts = [len(list(shape.leaves())) for shape in shapes]
            start = sum(counts[:index])
            return operands[0][start : start + counts[index]]
        if opcode is Opcode.CALL:
            callee = instruction.called_computations[0]
            given = [symbol for symbols in operands for symbol in symbols]
            number = self.site_numbers[site, instruction][0]
            return self.computation(callee, number, self.split(callee, given))
        if opcode is Opcode.WHILE:
            return self.loop(instruction, site, operands[0])
        if opcode is Opcode.CONDITIONAL:
            return self.conditional(instruction, site, operands)
        return self.plain(instruction, site, operands)

    def plain(self, instruction, site, operands):
        table = self.assignment.call_sites[site].slices
        target = table[instruction]
        sources = [table[x] for x in instruction.operands]
        if instruction.opcode is Opcode.CONSTANT:
            return [self.symbol(("constant", instruction))]
        if self.passes_on(instruction, sources, target):
            return operands[0]
        for slices, symbols, operand in zip(sources, operands, instruction.operands, strict=True):
            for where, symbol in zip(slices, symbols, strict=True):
                self.expect(where, symbol, f"{operand.name} for {instruction.name}")
        self.check_overlap(instruction, sources, target)
        if instruction.opcode is Opcode.COPY:
            for where, symbol in zip(target, operands[0], strict=True):
                self.write(where, symbol)
            return operands[0]
        key = (instruction, tuple([tuple(symbols) for symbols in operands]))
        results = [self.symbol((*key, leaf)) for leaf in range(len(target))]
        for where, symbol in zip(target, results, strict=True):
            self.write(where, symbol)
        return results

    def passes_on(self, instruction, sources, target):
        if instruction.opcode not in MAY_PASS_ON:
            return False
        if instruction.opcode is Opcode.COPY and not instruction.shape.is_tuple:
            return False
        if instruction.opcode is Opcode.CUSTOM_CALL:
            name = instruction.attributes_as(CustomCall).target
            return "harding" in name and sources[0] == target
        return sources[0] == target and target[0].nbytes > 0

    def check_overlap(self, instruction, sources, target):
        """A result lies over an operand exactly or not at all, and only where that is safe."""
        for leaf, where in enumerate(target):
            for number, slices in enumerate(sources):
                for source in slices:
                    if not overlaps(where, source):
                        continue
                    assert where == source, f"{instruction.name} lies across an operand"
                    if instruction.opcode in WRITES_OPERAND_0:
                        assert number == 0
                    elif instruction.opcode is Opcode.SORT:
                        assert number == leaf
                    else:
                        assert is_elementwise(instruction, number), instruction.name

    def loop(self, instruction, site, state):
        numbers = self.site_numbers[site, instruction]
        sites = {self.assignment.call_sites[n].computation: n for n in numbers}
        condition, body = instruction.called_computations
        for _ in range(self.trips):
            self.computation(condition, sites[condition], self.split(condition, state))
            state = self.computation(body, sites[body], self.split(body, state))
        self.computation(condition, sites[condition], self.split(condition, state))
        return state

    def conditional(self, instruction, site, operands):
        table = self.assignment.call_sites[site].slices
        for where, symbol in zip(table[instruction.operands[0]], operands[0], strict=True):
            self.expect(where, symbol, f"the branch index of {instruction.name}")
        branch = self.branch % len(instruction.called_computations)
        callee = instruction.called_computations[branch]
        number = self.site_numbers[site, instruction][branch]
        given = self.split(callee, operands[branch + 1])
        result = self.computation(callee, number, given)
        return result


def overlaps(a, b):
    if a.allocation != b.allocation or not a.nbytes or not b.nbytes:
        return False
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def is_elementwise(instruction, number):
    """Whether element i of the result needs only element i of one operand, judged by shapes."""
    if instruction.opcode in NEVER_IN_PLACE:
        return False
    operand = instruction.operands[number].shape
    return operand.dimensions == instruction.shape.dimensions


NEVER_IN_PLACE = {
    Opcode.DOT, Opcode.CONVOLUTION, Opcode.REVERSE, Opcode.TRANSPOSE, Opcode.GATHER,
    Opcode.REDUCE_WINDOW, Opcode.CONCATENATE, Opcode.SLICE, Opcode.PAD, Opcode.BROADCAST,
    Opcode.IOTA, Opcode.DYNAMIC_SLICE, Opcode.CHOLESKY, Opcode.FFT, Opcode.RESHAPE,
}  # fmt: skip
