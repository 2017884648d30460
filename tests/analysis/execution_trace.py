"""What really is live at once in one run of a module: a slow count of all that happens.

Loops run a few times and conditionals take a branch, both at random, whatever the values are. Each
run of the instruction that defines a value makes a new instance of it.
"""

from lowtide.analysis.call_graph import CallRole, executed_callees
from lowtide.ir import Opcode
from lowtide.ops.may_share import may_share

CONTROL = (Opcode.WHILE, Opcode.CONDITIONAL)


class Trace:
    """Events in order of time: ("make", key) and ("read", instruction) and ("return", comp)."""

    def __init__(self, module, sequences, draw):
        self.sequences = sequences
        self.draw = draw
        self.events = []
        self.states = set()
        """The parameters of conditions: what they are given is given to the body next."""
        self.computation(module.entry)

    def computation(self, computation):
        for parameter in computation.parameters:
            self.events.append(("make", parameter))
        order = self.sequences[computation]
        late = {}
        for instruction in order:
            for start in [x for x, at in late.items() if at is instruction]:
                self.computation(start.called_computations[0])
                del late[start]
            if instruction.opcode is Opcode.PARAMETER:
                continue
            if instruction.opcode is Opcode.ASYNC_UPDATE:
                # It reads nothing: what it names may still be in the making.
                continue
            self.events.append(("read", instruction))
            if instruction.opcode is Opcode.ASYNC_START:
                late[instruction] = self.some_time_before_done(order, instruction)
            else:
                self.run(instruction)
            self.events.append(("make", instruction))
        self.events.append(("return", computation))

    def some_time_before_done(self, order, start):
        done = start
        while done.opcode is not Opcode.ASYNC_DONE:
            done = next(iter(done.users))
        return self.draw.choice(order[order.index(start) + 1 : order.index(done) + 1])

    def run(self, instruction):
        callees = executed_callees(instruction)
        if instruction.opcode is Opcode.WHILE:
            (_, condition), (_, body) = callees
            self.states.update(condition.parameters)
            for _ in range(self.draw.randint(0, 2)):
                self.computation(condition)
                self.computation(body)
            self.computation(condition)
        elif callees and callees[0][0] is CallRole.BRANCH:
            self.computation(self.draw.choice(callees)[1])
        else:
            for _, callee in callees:
                self.computation(callee)


def instances(trace, values):
    """Per value its instances: [birth, {last read: uses then}]; times are numbers of events."""
    made_by, used_by, returned_by = {}, {}, {}
    for value in values:
        made_by.setdefault(value.instruction, []).append(value)
        for use in value.uses:
            used_by.setdefault(use.instruction, []).append((value, use))
        for position in value.positions:
            if position.instruction.is_root or position.instruction in trace.states:
                returned_by.setdefault(position.instruction.parent, []).append((value, None))
    found = {value: [] for value in values}
    for time, (kind, what) in enumerate(trace.events):
        if kind == "make":
            for value in made_by.get(what, ()):
                found[value].append([time, time, []])
            continue
        readers = used_by if kind == "read" else returned_by
        for value, use in readers.get(what, ()):
            if not found[value]:
                continue
            last = found[value][-1]
            if last[1] != time:
                last[1], last[2] = time, []
            last[2].append(use)
    for lives in found.values():
        for life in lives:
            # A value is written while its maker reads.
            event = trace.events[life[0]]
            maker = event[1]
            if maker.opcode in (*CONTROL, Opcode.PARAMETER, Opcode.ASYNC_START):
                continue
            life[0] -= 1
            life[1] = max(life[1], life[0] + 1)
    return found


def live_at_once(trace, values):
    """The pairs of values of which two instances overlap, as frozensets of numbers."""
    found = instances(trace, values)
    lives = [(life, value) for value in values for life in found[value]]
    lives.sort(key=lambda x: (x[0][0], x[1].number))
    pairs = set()
    for i, (first, a) in enumerate(lives):
        for second, b in lives[i + 1 :]:
            if second[0] > first[1]:
                break
            if a is not b and not taken_over(first, second, b):
                pairs.add(frozenset((a.number, b.number)))
    return pairs


def taken_over(first, second, value):
    """Whether the only reads at the birth of `second` are those whose operand it overwrites."""
    if second[0] != first[1] or None in first[2] or not first[2]:
        return False
    return all(
        ((use.operand_number, use.operand_index), value.index) in may_share(use.instruction)
        and use.instruction is value.instruction
        for use in first[2]
    )
