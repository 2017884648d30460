"""Plans made by hand: every value alone in the arena, but for those that a test puts elsewhere."""

from lowtide.checking import check_plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Opcode
from lowtide.ir.buffer import (
    NO_BYTES,
    Allocation,
    AllocationKind,
    BufferAssignment,
    BufferSlice,
    CallSite,
)

from .mutations import PASSED_ON


def layout(text, places=None, *, aliases=True):
    """Return a scheduled module and its plan.

    `places` says where values lie: `{"b": "a"}` in the place of another one, `{"b": 64}` at an
    offset of the arena. `b{1}` is element 1 of b. Values passed on have no place of their own.
    """
    module = parse_hlo(text)
    laid_out = _Layout(module, places or {}, aliases)
    return module, laid_out.plan()


def kinds(text, places=None, **options):
    """Return the kinds of violations of a plan made by hand."""
    return [x.kind.value for x in check_plan(*layout(text, places, **options))]


class _Layout:
    def __init__(self, module, places, aliases):
        self.module = module
        self.places = places
        self.aliases = {
            (x.parameter, x.parameter_index): x.output_index
            for x in (module.input_output_aliases if aliases else ())
        }
        self.allocations = []
        self.slices = {}
        self.sites = []
        self.end = 0

    def allocate(self, kind, nbytes, **fields):
        self.allocations.append(Allocation(len(self.allocations), kind, nbytes, **fields))
        return BufferSlice(len(self.allocations) - 1, 0, nbytes)

    def plan(self):
        self.arena = self.allocate(AllocationKind.ARENA, 1 << 20).allocation
        pending = [(self.module.entry, None, -1)]
        while pending:
            computation, caller, parent = pending.pop(0)
            number = len(self.sites)
            self.sites.append(CallSite(computation, caller, parent, {}))
            for instruction in self.module.schedule.sequences[computation]:
                self.lay_out(number, instruction)
                if instruction.opcode in CALLERS:
                    called = instruction.called_computations
                    pending += [(callee, instruction, number) for callee in called]
        outputs = tuple(self.output(index) for index, _ in self.module.entry.root.shape.leaves())
        kept = sum(x.nbytes for x in outputs if x.allocation == self.arena)
        return BufferAssignment(tuple(self.allocations), tuple(self.sites), outputs, kept)

    def lay_out(self, site, instruction):
        if instruction.opcode in PASSED_ON or (site and instruction.opcode is Opcode.PARAMETER):
            return
        row = []
        for index, shape in instruction.shape.leaves():
            name = instruction.name
            if instruction.shape.is_tuple:
                name += "{" + ",".join(map(str, index)) + "}"
            self.slices[name] = self.place(instruction, index, shape, name)
            row.append(self.slices[name])
        self.sites[site].slices[instruction] = tuple(row)

    def place(self, instruction, index, shape, name):
        where = self.places.get(name)
        if isinstance(where, BufferSlice):
            return where
        if isinstance(where, str):
            return BufferSlice(
                self.slices[where].allocation, self.slices[where].offset, shape.nbytes
            )
        if isinstance(where, int):
            return BufferSlice(self.arena, where, shape.nbytes)
        if not shape.nbytes:
            return NO_BYTES
        if instruction.opcode is Opcode.PARAMETER:
            key = (self.module.entry.parameters.index(instruction), index)
            output = self.aliases.get(key)
            return self.allocate(
                AllocationKind.ARGUMENT, shape.nbytes, parameter=key, output=output
            )
        if instruction.opcode is Opcode.CONSTANT:
            return self.allocate(AllocationKind.CONSTANT, shape.nbytes, constant=instruction)
        self.end += 4096
        return BufferSlice(self.arena, self.end, shape.nbytes)

    def output(self, index):
        """Where an output is made: seen through the tuple at the root, and loops."""
        instruction = self.module.entry.root
        while instruction.opcode in PASSED_ON:
            if instruction.opcode is Opcode.TUPLE:
                instruction, index = instruction.operands[index[0]], index[1:]
            elif instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
                index = (instruction.attributes.index, *index)
                instruction = instruction.operands[0]
            elif instruction.opcode is Opcode.CALL:
                instruction = instruction.called_computations[0].root
            else:
                instruction = instruction.operands[0]
        name = instruction.name
        if instruction.shape.is_tuple:
            name += "{" + ",".join(map(str, index)) + "}"
        return self.slices[name]


CALLERS = {Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL, Opcode.ASYNC_START}
