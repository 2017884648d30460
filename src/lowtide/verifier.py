"""The verifier: whether a module obeys the rules of HLO. Every command runs it on its input.

The rules of an instruction by itself (`ops.signature`) are checked once per distinct signature.
Each instruction only pays for the checks of the graph. All walks are iterative, and linear in the
size of the module.
"""

from __future__ import annotations

from typing import Final, NoReturn

from lowtide.ir.attributes import Parameter
from lowtide.ir.computation import Computation
from lowtide.ir.errors import InvalidModuleError, ShapeError, check_class
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import Module
from lowtide.ir.opcode import CONTROL_FLOW, Opcode
from lowtide.ir.shape import ProgramShape, Shape, ShapeIndex
from lowtide.ir.traversal import callees
from lowtide.ops.checks import agree
from lowtide.ops.signature import check_shape, check_signature
from lowtide.suggestions import nearest

_DONE_OF: Final = {
    Opcode.ALL_GATHER_DONE: frozenset({Opcode.ALL_GATHER_START}),
    Opcode.ALL_REDUCE_DONE: frozenset({Opcode.ALL_REDUCE_START}),
    Opcode.COLLECTIVE_PERMUTE_DONE: frozenset({Opcode.COLLECTIVE_PERMUTE_START}),
    Opcode.COPY_DONE: frozenset({Opcode.COPY_START}),
    Opcode.ASYNC_UPDATE: frozenset({Opcode.ASYNC_START, Opcode.ASYNC_UPDATE}),
    Opcode.ASYNC_DONE: frozenset({Opcode.ASYNC_START, Opcode.ASYNC_UPDATE}),
}
"""What the operand of the later half of an asynchronous operation has to be."""

_PARAMETER: Final = Opcode.PARAMETER  # attribute access on an enum is slow in the inner loop


def verify(module: Module) -> None:
    """Check a whole module; return None where it is valid.

    Raises InvalidModuleError on the first rule that is broken; its message names the instruction,
    where it stands in the text, what was expected and what was found. Raises TypeError for
    anything but a module.
    """
    check_class(module, Module)
    _check_entry(module)
    for computation in module.computations.values():
        _check_interface(module, computation)
    _check_instruction_names(module)
    _check_call_graph(module)
    signatures = _Signatures(module)
    for computation in module.computations.values():
        in_order = _check_instructions(computation, signatures)
        if not in_order or _check_control(computation):
            _check_acyclic(computation)
    _check_schedule(module)
    _check_entry_layout(module)
    _check_aliases(module)


# -- where -------------------------------------------------------------------------------------


def _fail(instruction: Instruction, message: str) -> NoReturn:
    message = f"{instruction.opcode.value}: {message}"
    _fail_at(instruction.parent.module, instruction.position, message, instruction.name)


def _fail_in_header(module: Module, field: str, message: str) -> NoReturn:
    """Refuse what a field of the module's first line says."""
    source = module.source_text
    position = -1 if source is None else source.fields.get(field, -1)
    _fail_at(module, position, message, "")


def _fail_at(module: Module, position: int, message: str, instruction: str) -> NoReturn:
    """Refuse a module for what stands at a character of its text, -1 where that is unknown."""
    source = module.source_text
    where, line = "", 0
    if source is not None and position >= 0:
        line, column = source.line_and_column(position)
        where = f"{source.file or '<text>'}:{line}:{column}"
    raise InvalidModuleError(
        message, instruction=instruction, where=where, line=line, position=position
    )


# -- the module and its computations -----------------------------------------------------------


def _check_entry(module: Module) -> None:
    if not module.has_entry:
        raise InvalidModuleError(f"module {module.name} has no entry computation")
    _check_registered(module, module.entry, "the entry")


def _check_registered(module: Module, computation: Computation, what: str) -> None:
    if module.computations.get(computation.name) is not computation:
        near = nearest(computation.name, module.computations)
        raise InvalidModuleError(
            f"{what} is {computation.name}, which is no computation of the module{near}"
        )


def _check_interface(module: Module, computation: Computation) -> None:
    """Check name, root and parameters of one computation."""
    name = computation.name
    if module.computations.get(name) is not computation or computation.module is not module:
        raise InvalidModuleError(f"computation {name} is registered under another name or module")
    if not computation.has_root:
        raise InvalidModuleError(f"computation {name} has no root")
    if computation.instructions.get(computation.root.name) is not computation.root:
        near = nearest(computation.root.name, computation.instructions)
        raise InvalidModuleError(
            f"the root {computation.root.name} is no instruction of computation {name}{near}"
        )
    found = [x for x in computation.instructions.values() if x.opcode is Opcode.PARAMETER]
    for number, parameter in enumerate(computation.parameters):
        attributes = parameter.attributes
        actual = attributes.number if isinstance(attributes, Parameter) else None
        if actual != number:
            _fail(
                parameter,
                f"the parameters of {name} must be numbered 0..{len(found) - 1} without gaps or "
                f"repeats; number {actual} stands where {number} is expected",
            )
    if len(found) != len(computation.parameters) or set(found) != set(computation.parameters):
        raise InvalidModuleError(
            f"computation {name} lists {len(computation.parameters)} parameters, "
            f"but has {len(found)} parameter instructions"
        )


def _check_instruction_names(module: Module) -> None:
    names: set[str] = set()
    for computation in module.computations.values():
        before = len(names)
        names.update(computation.instructions)
        if len(names) != before + len(computation.instructions):
            _report_repeated_name(module)


def _report_repeated_name(module: Module) -> NoReturn:
    owner: dict[str, Computation] = {}
    for computation in module.computations.values():
        for name, instruction in computation.instructions.items():
            if name in owner:
                first = owner[name].name
                _fail(instruction, f"the name is taken by an instruction of computation {first}")
            owner[name] = computation
    raise AssertionError("no name is repeated")


# -- the graph of one computation --------------------------------------------------------------


def _check_instructions(computation: Computation, signatures: _Signatures) -> bool:
    """Check names, operands, users and signatures of all instructions.

    Returns whether all operands were created before their users. Counting the edges from both
    ends finds users that read nothing, without looking each one up.
    """
    instructions = computation.instructions
    lookup = instructions.get
    seen, numbers = signatures.seen, signatures.numbers
    in_order = True
    reads = uses = 0
    for name, instruction in instructions.items():
        if instruction.name != name or instruction.parent is not computation:
            _fail(instruction, f"it is registered as {name} in computation {computation.name}")
        operands = instruction.operands
        number = instruction.id
        for operand in operands:
            if lookup(operand.name) is not operand:
                _report_foreign_operand(instruction, operand)
            if instruction not in operand.users:
                _fail(instruction, f"operand {operand.name} does not list it among its users")
            if operand.id >= number:
                in_order = False
        count = len(operands)
        reads += count if count < 2 else len(set(operands))
        uses += len(instruction.users)
        opcode = instruction.opcode
        called = instruction.called_computations
        shapes = tuple([operand.shape for operand in operands])
        callees_key = tuple([numbers[x] for x in called]) if called else called
        # Parsers share equal attribute records, so the identity stands for the record.
        attributes = 0 if opcode is _PARAMETER else id(instruction.attributes)
        key = (opcode, attributes, instruction.shape, shapes, callees_key)
        if key not in seen:
            seen.add(key)
            signatures.check(instruction, shapes)
        if opcode in _DONE_OF:
            _check_done(instruction)
    if reads != uses:
        _report_false_user(computation)
    return in_order


class _Signatures:
    """The signatures that were checked already: opcode, attributes, shapes, callees.

    Callees of equal type count as equal. The number of a parameter counts for nothing, as
    `_check_interface` looks at it.
    """

    def __init__(self, module: Module) -> None:
        self.seen: set[tuple[object, ...]] = set()
        self.numbers: dict[Computation, int] = {}
        """A number for the type of each computation."""
        self._programs: list[ProgramShape] = []
        self._shapes: set[Shape] = set()
        types: dict[tuple[object, ...], int] = {}
        for computation in module.computations.values():
            program = computation.program_shape
            number = types.setdefault((program.parameters, program.result), len(types))
            self.numbers[computation] = number
            if number == len(self._programs):
                self._programs.append(program)

    def check(self, instruction: Instruction, operands: tuple[Shape, ...]) -> None:
        """Check a signature that was not met before."""
        shape = instruction.shape
        called = [self._programs[self.numbers[x]] for x in instruction.called_computations]
        try:
            if shape not in self._shapes:
                self._shapes.add(shape)
                check_shape(shape)
            check_signature(instruction.opcode, shape, operands, instruction.attributes, called)
        except ShapeError as error:
            _fail(instruction, str(error))


def _check_done(instruction: Instruction) -> None:
    wanted = _DONE_OF[instruction.opcode]
    found = instruction.operands[0].opcode
    if found not in wanted:
        names = " or ".join(sorted(wanted))
        _fail(instruction, f"the operand must be {names}, not {found.value}")


def _report_foreign_operand(instruction: Instruction, operand: Instruction) -> NoReturn:
    computation = instruction.parent
    near = nearest(operand.name, computation.instructions)
    _fail(
        instruction,
        f"operand {operand.name} is no instruction of computation {computation.name}{near}",
    )


def _report_false_user(computation: Computation) -> NoReturn:
    for instruction in computation.instructions.values():
        for user in instruction.users:
            if instruction not in user.operands:
                _fail(instruction, f"it lists {user.name} as a user, which does not read it")
            if computation.instructions.get(user.name) is not user:
                _fail(
                    instruction,
                    f"its user {user.name} is no instruction of computation {computation.name}",
                )
    raise AssertionError("all users read what they are listed for")


def _check_control(computation: Computation) -> bool:
    """Check the control dependencies from both ends; return whether there are any."""
    found = False
    for instruction in computation.instructions.values():
        for before in instruction.control_predecessors:
            found = True
            if computation.instructions.get(before.name) is not before:
                _fail(instruction, f"control predecessor {before.name} is in another computation")
            if instruction not in before.control_successors:
                _fail(instruction, f"control predecessor {before.name} does not list it")
        for after in instruction.control_successors:
            found = True
            if instruction not in after.control_predecessors:
                _fail(instruction, f"control successor {after.name} does not list it")
    return found


def _check_acyclic(computation: Computation) -> None:
    """Check that operands and control dependencies admit an order (Kahn, 1962)."""
    instructions = computation.instructions.values()
    waiting = {x: len(set(x.operands)) + len(x.control_predecessors) for x in instructions}
    ready = [x for x, count in waiting.items() if not count]
    ordered = 0
    while ready:
        instruction = ready.pop()
        ordered += 1
        for after in (*instruction.users, *instruction.control_successors):
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    if ordered == len(waiting):
        return
    cycle = _find_cycle([x for x, count in waiting.items() if count], waiting)
    path = " -> ".join([x.name for x in cycle[:6]]) + (" -> ..." if len(cycle) > 6 else "")
    _fail(cycle[0], f"it waits for itself through {len(cycle)} instructions: {path}")


def _find_cycle(stuck: list[Instruction], waiting: dict[Instruction, int]) -> list[Instruction]:
    """Return the instructions of one cycle: each one left over waits for another one left over."""
    position: dict[Instruction, int] = {}
    walk: list[Instruction] = []
    current = stuck[0]
    while current not in position:
        position[current] = len(walk)
        walk.append(current)
        before = (*current.operands, *current.control_predecessors)
        current = next(x for x in before if waiting[x])
    return walk[position[current] :]


# -- calls -------------------------------------------------------------------------------------


def _check_call_graph(module: Module) -> None:
    """Check that callees exist, that nothing calls itself, and that fused bodies are only fused."""
    fused: dict[Computation, Instruction] = {}
    executed: dict[Computation, Instruction] = {}
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            for callee in instruction.called_computations:
                if module.computations.get(callee.name) is not callee:
                    near = nearest(callee.name, module.computations)
                    _fail(instruction, f"{callee.name} is no computation of the module{near}")
                if callee is module.entry:
                    _fail(instruction, f"it calls the entry computation {callee.name}")
                if instruction.opcode is Opcode.FUSION:
                    fused.setdefault(callee, instruction)
                elif instruction.opcode in CONTROL_FLOW:
                    executed.setdefault(callee, instruction)
    for callee, instruction in fused.items():
        if callee in executed:
            other = executed[callee]
            _fail(
                instruction,
                f"{callee.name} is also called by {other.name} ({other.opcode.value}); the body of "
                "a fusion must have no other use",
            )
    _check_no_recursion(module)


def _check_no_recursion(module: Module) -> None:
    graph = {computation: callees(computation) for computation in module.computations.values()}
    callers = dict.fromkeys(graph, 0)
    for called in graph.values():
        for callee in called:
            callers[callee] += 1
    ready = [computation for computation, count in callers.items() if not count]
    ordered = 0
    while ready:
        ordered += 1
        for callee in graph[ready.pop()]:
            callers[callee] -= 1
            if not callers[callee]:
                ready.append(callee)
    if ordered != len(graph):
        stuck = ", ".join([c.name for c, count in callers.items() if count][:6])
        raise InvalidModuleError(f"the call graph has a cycle among: {stuck}")


# -- the schedule ------------------------------------------------------------------------------


def _check_schedule(module: Module) -> None:
    if module.schedule is None:
        return
    for computation, sequence in module.schedule.sequences.items():
        _check_registered(module, computation, "a scheduled computation")
        _check_sequence(computation, sequence)
    for computation in _executed(module):
        if computation not in module.schedule.sequences:
            raise InvalidModuleError(
                f"computation {computation.name} runs as control flow, but has no schedule"
            )


def _executed(module: Module) -> list[Computation]:
    """Return the entry and all computations that it runs as control flow, in order of discovery."""
    found = {module.entry: None}
    stack = [module.entry]
    while stack:
        for instruction in stack.pop().instructions.values():
            if instruction.opcode not in CONTROL_FLOW:
                continue
            fresh = [x for x in instruction.called_computations if x not in found]
            found.update(dict.fromkeys(fresh))
            stack.extend(fresh)
    return list(found)


def _check_sequence(computation: Computation, sequence: tuple[Instruction, ...]) -> None:
    done: set[Instruction] = set()
    for instruction in sequence:
        if computation.instructions.get(instruction.name) is not instruction:
            raise InvalidModuleError(
                f"the schedule of {computation.name} has {instruction.name}, which is not in it"
            )
        for before in (*instruction.operands, *instruction.control_predecessors):
            if before not in done:
                _fail(instruction, f"it is scheduled before {before.name}, which it waits for")
        if instruction in done:
            _fail(instruction, "it is scheduled twice")
        done.add(instruction)
    if len(done) != len(computation.instructions):
        missing = next(x for x in computation.instructions.values() if x not in done)
        _fail(missing, f"the schedule of {computation.name} leaves it out")


# -- the interface of the module ---------------------------------------------------------------


def _check_entry_layout(module: Module) -> None:
    layout = module.entry_layout
    if layout is None:
        return
    program = module.entry.program_shape
    if len(layout.parameters) != len(program.parameters):
        _fail_in_header(
            module,
            _LAYOUT,
            f"{_LAYOUT}: the number of parameters is {len(layout.parameters)}, "
            f"that of the entry {len(program.parameters)}",
        )
    for number, (declared, actual) in enumerate(
        zip(layout.parameters, program.parameters, strict=True)
    ):
        if not agree(declared, actual):
            _fail_in_header(
                module,
                _LAYOUT,
                f"{_LAYOUT} declares parameter {number} as {declared}, it is {actual}",
            )
    if not agree(layout.result, program.result):
        _fail_in_header(
            module,
            _LAYOUT,
            f"{_LAYOUT} declares the result as {layout.result}, it is {program.result}",
        )


_LAYOUT: Final = "entry_computation_layout"
_ALIAS: Final = "input_output_alias"
_DONOR: Final = "buffer_donor"


def _check_aliases(module: Module) -> None:
    """Check that aliased positions exist, have equal sizes, and are named once."""
    outputs: set[ShapeIndex] = set()
    inputs: set[tuple[int, ShapeIndex]] = set()
    for alias in module.input_output_aliases:
        output = _at(module, module.entry.root.shape, alias.output_index, _ALIAS, "the result")
        parameter = _parameter_at(module, alias.parameter, alias.parameter_index, _ALIAS)
        place = f"{_ALIAS}: output {list(alias.output_index)} and parameter {alias.parameter}"
        if output.is_tuple or parameter.is_tuple or output.nbytes != parameter.nbytes:
            message = f"{place} must be arrays of equal size, not {output} and {parameter}"
            _fail_in_header(module, _ALIAS, message)
        if alias.output_index in outputs:
            _fail_in_header(module, _ALIAS, f"{place}: the output is aliased twice")
        if (alias.parameter, alias.parameter_index) in inputs:
            _fail_in_header(module, _ALIAS, f"{place}: the parameter is aliased twice")
        outputs.add(alias.output_index)
        inputs.add((alias.parameter, alias.parameter_index))
    for donor in module.buffer_donors:
        _parameter_at(module, donor.parameter, donor.parameter_index, _DONOR)
        if (donor.parameter, donor.parameter_index) in inputs:
            message = f"{_DONOR}: parameter {donor.parameter} is aliased as well"
            _fail_in_header(module, _DONOR, message)


def _parameter_at(module: Module, number: int, index: ShapeIndex, field: str) -> Shape:
    parameters = module.entry.parameters
    if not 0 <= number < len(parameters):
        message = f"{field}: there is no parameter {number}; the entry has {len(parameters)}"
        _fail_in_header(module, field, message)
    return _at(module, parameters[number].shape, index, field, f"parameter {number}")


def _at(module: Module, shape: Shape, index: ShapeIndex, field: str, what: str) -> Shape:
    try:
        return shape.at(index)
    except IndexError:
        pass
    _fail_in_header(module, field, f"{field}: {what} {shape} has no index {list(index)}")
