"""An oracle for plans: runs a program byte by byte, on names, along one path after the other.

A value is a symbol that stands for "this operation on these symbols". Every byte of every
allocation holds a symbol and a position in it. What an operation loads is compared with nothing;
only what a caller can see counts: outputs, arguments and constants that change, and which way
control flow goes. It knows nothing of live ranges and shares nothing with the verifier.
"""

from itertools import product

from lowtide.ir import Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.ops.may_share import sharing_pairs

NAMES = {Opcode.BITCAST, Opcode.OPTIMIZATION_BARRIER, Opcode.ADD_DEPENDENCY, Opcode.DOMAIN}

STARTS = {Opcode.COPY_START: Opcode.COPY_DONE, Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE_DONE,
          Opcode.ASYNC_START: Opcode.ASYNC_DONE}  # fmt: skip
ENDS = set(STARTS.values())


class DamageError(Exception):
    """The program does not compute what it should."""


def is_damaged(module, assignment, trips=(0, 1, 2, 3)):
    """Whether some path through the program shows that the plan is wrong."""
    opcodes = {x.opcode for c in module.computations.values() for x in c.instructions.values()}
    trips = trips if Opcode.WHILE in opcodes else (0,)
    branches = (0, 1, 2) if Opcode.CONDITIONAL in opcodes else (0,)
    late = (False, True) if opcodes & STARTS.keys() else (False,)
    for path in product(trips, branches, late):
        try:
            ByteMachine(module, assignment, *path).run()
        except DamageError:
            return True
    return False


class ByteMachine:
    """`trips` is how often loops go round, `branch` the branch that conditionals take.

    With `late`, asynchronous operations do all their work when they end, else when they start.
    """

    def __init__(self, module, assignment, trips, branch, late=False):
        self.module = module
        self.assignment = assignment
        self.trips = trips
        self.branch = branch
        self.late = late
        self.waiting = {}
        self.symbols = {}
        self.memory = [{} for _ in assignment.allocations]
        self.children = {}
        for number, row in enumerate(assignment.call_sites):
            self.children.setdefault((row.parent, row.caller), []).append(number)

    def symbol(self, *key):
        return self.symbols.setdefault(key, len(self.symbols))

    # -- memory --------------------------------------------------------------------------------

    def store(self, place, symbol):
        memory = self.memory[place.allocation]
        for i in range(place.nbytes):
            memory[place.offset + i] = (symbol, i)

    def load(self, place):
        memory = self.memory[place.allocation]
        found = [memory.get(place.offset + i) for i in range(place.nbytes)]
        if found and found[0] is not None:
            symbol = found[0][0]
            if found == [(symbol, i) for i in range(place.nbytes)]:
                return symbol
        return self.symbol("mixture", tuple(found))

    # -- the program ---------------------------------------------------------------------------

    def run(self):
        entry = self.module.entry
        row = self.assignment.call_sites[0]
        arguments = []
        kept = []
        for allocation in self.assignment.allocations:
            if allocation.constant is not None:
                for i in range(allocation.nbytes):
                    self.memory[allocation.index][i] = (self.symbol(allocation.constant), i)
                kept.append(allocation)
        for parameter in entry.parameters:
            for (index, shape), place in zip(
                parameter.shape.leaves(), row.slices[parameter], strict=True
            ):
                symbol = self.symbol(parameter, index)
                here = place if place and place.nbytes else None
                if here:
                    self.store(here, symbol)
                arguments.append((symbol, here, shape))
                owner = self.assignment.allocations[place.allocation] if here else None
                if owner is not None and owner.output is None:
                    kept.append(owner)
        before = {x.index: dict(self.memory[x.index]) for x in kept}
        results = self.computation(entry, 0, arguments)
        self.check_results(results)
        for index, content in before.items():
            if self.memory[index] != content:
                raise DamageError("read-only memory changed")

    def check_results(self, results):
        taken = set()
        for (symbol, place, _), declared in zip(results, self.assignment.outputs, strict=True):
            if place is None:
                continue
            if (place.allocation, place.offset) != (declared.allocation, declared.offset):
                raise DamageError("the output is elsewhere")
            if self.load(place) != symbol:
                raise DamageError("an output is wrong")
            bytes_ = {(place.allocation, place.offset + i) for i in range(place.nbytes)}
            if bytes_ & taken:
                raise DamageError("two outputs in one place")
            taken |= bytes_

    def computation(self, computation, site, arguments):
        """Values are (symbol that they should be, place or None, shape) per leaf."""
        arguments = list(arguments)
        values = {}
        for parameter in computation.parameters:
            count = len(list(parameter.shape.leaves()))
            values[parameter], arguments = arguments[:count], arguments[count:]
        for instruction in self.module.schedule.sequences[computation]:
            if instruction.opcode is not Opcode.PARAMETER:
                values[instruction] = self.step(instruction, site, values)
        return values[computation.root]

    def step(self, instruction, site, values):
        operands = [values[x] for x in instruction.operands]
        flat = [leaf for leaves in operands for leaf in leaves]
        opcode = instruction.opcode
        if opcode is Opcode.TUPLE:
            return flat
        if opcode in NAMES:
            return operands[0]
        if opcode is Opcode.GET_TUPLE_ELEMENT:
            shapes = instruction.operands[0].shape.tuple_shapes
            counts = [len(list(shape.leaves())) for shape in shapes]
            index = instruction.attributes_as(GetTupleElement).index
            start = sum(counts[:index])
            return operands[0][start : start + counts[index]]
        if opcode in ENDS:
            return self.end(instruction, site, operands[0])
        if opcode is Opcode.ASYNC_UPDATE:
            return operands[0]
        if opcode is Opcode.ASYNC_START:
            return self.async_start(instruction, site, flat)
        if opcode is Opcode.CALL:
            number = self.children[site, instruction][0]
            return self.computation(instruction.called_computations[0], number, flat)
        if opcode is Opcode.WHILE:
            return self.loop(instruction, site, flat)
        if opcode is Opcode.CONDITIONAL:
            return self.conditional(instruction, site, operands)
        return self.plain(instruction, site, operands)

    def plain(self, instruction, site, operands):
        places = self.assignment.call_sites[site].slices.get(instruction)
        flat = [leaf for leaves in operands for leaf in leaves]
        if places is None or (len(flat) == 1 and self.renames(instruction, flat[0], places)):
            return operands[0]
        if instruction.opcode is Opcode.CONSTANT:
            place = places[0] if places[0].nbytes else None
            return [(self.symbol(instruction), place, instruction.shape)]
        results = []
        for number, (_, shape) in enumerate(instruction.shape.leaves()):
            symbol = self.symbol(instruction, number, *[symbol for symbol, _, _ in flat])
            place = places[number]
            place = place if place is not None and place.nbytes else None
            results.append((symbol, place, shape))
        own = [place for _, place, _ in results]
        if instruction.opcode is Opcode.COPY_START:
            results[1], own[1] = flat[0], None

        def work():
            loaded = [self.load(place) if place else symbol for symbol, place, _ in flat]
            if self.spoils(instruction, operands, own):
                loaded.append("spoilt")
            for number, place in enumerate(own):
                if place:
                    self.store(place, self.symbol(instruction, number, *loaded))

        if self.late and instruction.opcode in STARTS:
            self.waiting[site, instruction] = work
        else:
            work()
        return results

    # -- asynchronous operations ---------------------------------------------------------------

    def async_start(self, instruction, site, flat):
        number = self.children[site, instruction][0]

        def work():
            return self.computation(instruction.called_computations[0], number, flat)

        results = None if self.late else work()
        self.waiting[site, instruction] = work if self.late else lambda: results
        return flat

    def end(self, instruction, site, operand):
        start = instruction.operands[0]
        while start.opcode is Opcode.ASYNC_UPDATE:
            start = start.operands[0]
        work = self.waiting.pop((site, start), None)
        done = work() if work else None
        if start.opcode is Opcode.ASYNC_START:
            return done
        return operand[:1] if start.opcode is Opcode.COPY_START else operand

    def renames(self, instruction, operand, places):
        if instruction.opcode not in (Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.CUSTOM_CALL):
            return False
        return operand[1] is not None and operand[1] == places[0]

    def spoils(self, instruction, operands, places):
        """Whether a result overwrites an operand in a way that this operation cannot."""
        allowed = set(sharing_pairs(instruction))
        if instruction.opcode is Opcode.COPY and instruction.operands[0].shape is instruction.shape:
            allowed.add(((0, ()), ()))
        outputs = [index for index, _ in instruction.shape.leaves()]
        for number, leaves in enumerate(operands):
            indices = [index for index, _ in instruction.operands[number].shape.leaves()]
            for index, (_, source, _) in zip(indices, leaves, strict=True):
                for output, place in zip(outputs, places, strict=True):
                    if not source or not place or not meet(source, place):
                        continue
                    if source != place or ((number, index), output) not in allowed:
                        return True
        return False

    def inner(self, instruction, site):
        numbers = list(self.children[site, instruction])
        found = []
        for callee in instruction.called_computations:
            number = next(x for x in numbers if self.assignment.call_sites[x].computation is callee)
            numbers.remove(number)
            found.append(number)
        return found

    def decide(self, leaf, what):
        symbol, place, _ = leaf
        if place and self.load(place) != symbol:
            raise DamageError(f"{what} goes the wrong way")

    def loop(self, instruction, site, state):
        first, second = self.inner(instruction, site)
        condition, body = instruction.called_computations
        for _ in range(self.trips):
            self.decide(self.computation(condition, first, state)[0], "a loop")
            after = self.computation(body, second, state)
            state = [
                (symbol, place if symbol == old else start, shape)
                for (symbol, place, shape), (old, start, _) in zip(after, state, strict=True)
            ]
        self.decide(self.computation(condition, first, state)[0], "a loop")
        return state

    def conditional(self, instruction, site, operands):
        self.decide(operands[0][0], "a conditional")
        numbers = self.inner(instruction, site)
        branch = self.branch % len(numbers)
        computation = instruction.called_computations[branch]
        result = self.computation(computation, numbers[branch], operands[branch + 1])
        places = self.assignment.call_sites[site].slices[instruction]
        return [
            (symbol, given if given is not None and given.nbytes else place, shape)
            for (symbol, place, shape), given in zip(result, places, strict=True)
        ]


def meet(a, b):
    if a.allocation != b.allocation:
        return False
    return a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
