"""Loops that carry tuples, and changes of what they carry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from lowtide.analysis.call_graph import while_body, while_condition
from lowtide.ir import Computation, Instruction, Module, Opcode, Shape
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.kept import kept
from lowtide.ir.shape import tuple_shape
from lowtide.ir.traversal import callees, computation_post_order
from lowtide.ops.backend_config import read_config, write_config
from lowtide.passes.call_sites import count_references, is_present
from lowtide.passes.dead_code import sweep
from lowtide.passes.editing import (
    TupleElements,
    element_index,
    make_tuple,
    read_elements,
    remove_with_operands,
    reshape_tuple,
    set_elements,
    take_apart,
)
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """A while over a tuple, whose condition and body nothing else calls.

    Both read single elements of their parameter only, and the body ends by making the tuple of the
    next step; so each element can be followed, and the tuple changed.
    """

    instruction: Instruction
    condition: Computation
    body: Computation

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the carried elements."""
        return self.instruction.shape.tuple_shapes

    @property
    def parameters(self) -> tuple[Instruction, Instruction]:
        """The parameters of condition and body."""
        return self.condition.parameters[0], self.body.parameters[0]

    @property
    def results(self) -> tuple[Instruction, ...]:
        """What the body makes of each element."""
        return self.body.root.operands

    @property
    def starts(self) -> TupleElements:
        """The elements before the first step."""
        return TupleElements(self.instruction.operands[0])

    def invariants(self) -> list[int]:
        """Return the elements that each step passes on."""
        parameter = self.body.parameters[0]
        return [
            i
            for i, x in enumerate(self.results)
            if x.opcode is Opcode.GET_TUPLE_ELEMENT
            and x.operands[0] is parameter
            and element_index(x) == i
        ]

    def read_inside(self, index: int) -> list[Instruction]:
        """Return the instructions of condition and body that are a carried element."""
        return self.all_read_inside().get(index, [])

    def all_read_inside(self) -> dict[int, list[Instruction]]:
        """Return the instructions of condition and body that are carried elements, by element."""
        found: dict[int, list[Instruction]] = {}
        for parameter in self.parameters:
            for user in parameter.users:
                found.setdefault(element_index(user), []).append(user)
        return found


def loops_of(module: Module) -> Iterator[WhileLoop]:
    """Yield the loops whose carries can be changed, inner ones first; dead code goes from them.

    A loop that was removed, or took another form, since the walk began is left out.
    """
    references = count_references(module)
    for computation in computation_post_order(module):
        if module.computations.get(computation.name) is not computation:
            continue
        for x in _whiles(computation) if callees(computation) else ():
            if not is_present(x):
                continue
            if all(references[callee] == 1 for callee in x.called_computations):
                loop = as_loop(x)
                if loop is not None:
                    yield loop


def _whiles(computation: Computation) -> list[Instruction]:
    """The loops of a computation, which passes ask for one after the other."""

    def found() -> list[Instruction]:
        return [x for x in computation.instructions.values() if x.opcode is Opcode.WHILE]

    return kept(computation, _whiles, found)


def as_loop(x: Instruction) -> WhileLoop | None:
    """Return the view of a while; None where its elements cannot be followed one by one.

    Does not ask who else calls its computations.
    """
    if not x.shape.is_tuple or x.has_control_edges:
        return None
    loop = WhileLoop(x, while_condition(x), while_body(x))
    root = loop.body.root
    if root.opcode is not Opcode.TUPLE or root.shape is not x.shape or root.has_control_edges:
        return None
    if root.users or x.operands[0].shape is not x.shape:
        return None
    for parameter in loop.parameters:
        if parameter.shape is not x.shape or not _is_read_by_element(parameter):
            return None
    return loop


def _is_read_by_element(parameter: Instruction) -> bool:
    if parameter.has_control_edges:
        return False
    elements = read_elements(parameter)
    if elements is None:
        return False
    return not any(x.has_control_edges for found in elements.values() for x in found)


# -- changing what is carried ------------------------------------------------------------------


def keep_carries(loop: WhileLoop, kept: Sequence[int]) -> None:
    """Carry only some elements, in the given order.

    What remains must not need the others, and nobody may read the loop as a whole.
    """
    x = loop.instruction
    starts, results = loop.starts, loop.results
    operand = x.operands[0]
    shape = tuple_shape([loop.shapes[i] for i in kept])
    x.set_operands((make_tuple(x.parent, [starts[i] for i in kept], operand),))
    remove_with_operands(operand)
    set_elements(loop.body.root, [results[i] for i in kept])
    for computation in (loop.condition, loop.body):
        sweep(computation)
    numbers = {old: new for new, old in enumerate(kept)}
    for source in (x, *loop.parameters):
        reshape_tuple(source, shape, kept)
        _renumber(source, numbers)
    renumber_config(x, numbers)


def _renumber(source: Instruction, numbers: dict[int, int]) -> None:
    for user in list(source.users):
        index = numbers.get(element_index(user))
        if index is None:
            source.parent.remove(user)
        else:
            user.set_attributes(GetTupleElement(index))


def add_invariants(loop: WhileLoop, values: Sequence[Instruction]) -> list[Instruction]:
    """Carry further values, which each step passes on; return them as the body reads them.

    What reads the loop as a whole reads a new tuple of the elements that it had.
    """
    x = loop.instruction
    if read_elements(x) is None:
        take_apart(x)
    old = len(loop.shapes)
    starts, operand = loop.starts, x.operands[0]
    elements = [starts[i] for i in range(old)]
    x.set_operands((make_tuple(x.parent, [*elements, *values], operand),))
    remove_with_operands(operand)
    shape = x.operands[0].shape
    for source in (x, *loop.parameters):
        reshape_tuple(source, shape)
    body = TupleElements(loop.body.parameters[0])
    made = [body[old + i] for i in range(len(values))]
    for element, value in zip(made, values, strict=True):
        element.set_metadata(value.raw_metadata)
    set_elements(loop.body.root, [*loop.results, *made])
    return made


# -- what the backend config says of loops -----------------------------------------------------


def renumber_config(x: Instruction, numbers: dict[int, int]) -> None:
    """Let the config of a loop name its induction variable by the new number, or not at all."""
    config = read_config(x)
    if not config:
        return
    before = json.dumps(config)
    variable = config.get("known_induction_variable")
    if isinstance(variable, dict):
        new = numbers.get(int(variable.get("tuple_index", -1)))
        if new is None:
            del config["known_induction_variable"]
            config.pop("known_init_step", None)
        else:
            config["known_induction_variable"] = {**variable, "tuple_index": str(new)}
    if config.get("dynamic_variables"):
        config["dynamic_variables"] = []
    if json.dumps(config) != before:
        write_config(x, config)
