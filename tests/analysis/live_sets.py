"""Bytes live at each step, by sets of names: the slow and obvious way, for programs without loops.

Calls are walked as they run; copies are in the program. Written without the analyses, to check
them.
"""

from lowtide.ir import Opcode
from lowtide.ir.attributes import GetTupleElement

IN_PLACE = {Opcode.NEGATE, Opcode.ADD, Opcode.DYNAMIC_UPDATE_SLICE, Opcode.COPY}


def live_profile(module, sequences):
    """Return the bytes of temporaries and outputs live at each step, with in-place writing."""
    walk = _Walk(sequences)
    parameters = {p: [((p, False), p)] for p in module.entry.parameters}
    result = walk.run(module.entry, parameters)
    return walk.profile([value for value, _ in result])


class _Walk:
    """Values are pairs (key, whether it takes memory); steps are (reads, made, candidates).

    A leaf is (value, the name that its computation knows it by).
    """

    def __init__(self, sequences):
        self.sequences = sequences
        self.steps = []
        self.size = {}

    def run(self, computation, arguments):
        values = dict(arguments)
        for instruction in self.sequences[computation]:
            if instruction.opcode is Opcode.PARAMETER:
                self.steps.append(([], None, []))
            else:
                values[instruction] = self.step(instruction, values)
        return values[computation.root]

    def step(self, instruction, values):
        operands = [values[x] for x in instruction.operands]
        flat = [value for leaves in operands for value in leaves]
        opcode = instruction.opcode
        if opcode is Opcode.CALL:
            callee = instruction.called_computations[0]
            pairs = zip(callee.parameters, flat, strict=True)
            result = self.run(callee, {p: [(value, p)] for p, (value, _) in pairs})
            self.steps.append(([], None, []))
            passed = dict(zip(callee.parameters, [name for _, name in flat], strict=True))
            return [(value, passed.get(name, (instruction, value))) for value, name in result]
        if opcode is Opcode.TUPLE or opcode is Opcode.RESHAPE:
            self.steps.append(([], None, []))
            return flat
        if opcode is Opcode.GET_TUPLE_ELEMENT:
            self.steps.append(([], None, []))
            return [flat[instruction.attributes_as(GetTupleElement).index]]
        made = (len(self.steps), opcode is not Opcode.CONSTANT)
        self.size[made] = instruction.shape.nbytes
        reads = [value for value, _ in flat]
        self.steps.append((reads, made, self.candidates(instruction, flat)))
        return [(made, made)]

    def candidates(self, instruction, flat):
        if instruction.opcode not in IN_PLACE:
            return []
        reads = [value for value, _ in flat]
        if instruction.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
            return [x for x in reads[:1] if reads.count(x) == 1]
        names = {value: {n for v, n in flat if v == value} for value in reads}
        return [value for value in reads if len(names[value]) == 1]

    def profile(self, result):
        last = {}
        for position, (reads, made, _) in enumerate(self.steps):
            last.update({value: position for value in [*reads, made] if value is not None})
        end = len(self.steps)
        last.update(dict.fromkeys(result, end))
        live, found = set(), []
        for position, (_, made, candidates) in enumerate(self.steps):
            if made is not None and made[1]:
                live.add(made)
            total = sum([self.size[value] for value in live])
            dying = [x for x in candidates if x in live and last[x] == position and x != made]
            equal = [x for x in dying if self.size[x] == self.size[made]]
            found.append(total - (self.size[made] if equal else 0))
            live = {value for value in live if last[value] > position}
        return found
