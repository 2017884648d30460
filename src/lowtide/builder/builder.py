"""Builder: a module from calls of Python, one operation after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from lowtide.builder.communication import CommunicationOps
from lowtide.builder.contraction import ContractionOps
from lowtide.builder.core import BuilderCore
from lowtide.builder.data_movement import DataMovementOps
from lowtide.builder.elementwise import ElementwiseOps
from lowtide.builder.values import BuildError, Op
from lowtide.ir.attributes import MAIN_THREAD
from lowtide.ir.computation import Computation
from lowtide.ir.instruction import Instruction
from lowtide.ir.module import BufferDonor, InputOutputAlias, Module
from lowtide.ir.shape import ProgramShape, Shape, ShapeIndex


@final
class Builder(ElementwiseOps, DataMovementOps, CommunicationOps, ContractionOps, BuilderCore):
    """Builds a module; there is one method per opcode.

    >>> builder = Builder("axpy")
    >>> a, x, y = [builder.parameter(i, shape) for i, shape in enumerate(shapes)]
    >>> module = builder.build(a * x + y)

    The result of each method is an `Op`, an operand of further ones. Numbers and NumPy arrays are
    taken for operands too, and become constants. Computations to call come from `sub_builder`,
    `sub_computation` and `scalar_computation`.
    """

    def __init__(
        self,
        name: str = "main",
        *,
        execution_thread: str = MAIN_THREAD,
        computation: Computation | None = None,
        added: Callable[[Instruction], None] | None = None,
    ) -> None:
        super().__init__(
            name, execution_thread=execution_thread, computation=computation, added=added
        )
        self._aliases: list[InputOutputAlias] = []
        self._donors: list[BufferDonor] = []

    @classmethod
    def inside(
        cls, computation: Computation, added: Callable[[Instruction], None] | None = None
    ) -> Builder:
        """Return a builder that adds operations to a computation which is complete already.

        `value` makes operands of its instructions; `added` is told of each new one.
        """
        return cls(computation.name, computation=computation, added=added)

    def value(self, instruction: Instruction) -> Op:
        """Return an instruction of this builder's computation as an operand."""
        if instruction.parent is not self._computation:
            raise BuildError(f"%{instruction.name} is not in computation {self._computation.name}")
        return Op(self, instruction)

    def alias(
        self,
        output_index: ShapeIndex,
        parameter: int,
        parameter_index: ShapeIndex = (),
        *,
        must: bool = False,
    ) -> None:
        """Let an output be written over an argument; checked by `build`."""
        self._aliases.append(InputOutputAlias(output_index, parameter, parameter_index, must))

    def donate(self, parameter: int, parameter_index: ShapeIndex = ()) -> None:
        """Let the program overwrite an argument; checked by `build`."""
        self._donors.append(BufferDonor(parameter, parameter_index))

    def build(self, root: Op | None = None) -> Module:
        """Return the module whose entry returns `root` (default: the last operation).

        Nothing can be added then. Raises BuildError where parameters are missing, or an alias or
        donor does not fit.
        """
        program = self.program_shape(root)
        self._check_aliases(program)
        entry = self._finish(root)
        module = self._module
        module.entry = entry
        # Callees stand before callers; the entry was there first.
        module.computations[entry.name] = module.computations.pop(entry.name)
        module.entry_layout = ProgramShape(program.parameters, program.result)
        module.input_output_aliases = tuple(self._aliases)
        module.buffer_donors = tuple(self._donors)
        return module

    def _check_aliases(self, program: ProgramShape) -> None:
        taken: set[tuple[int, ShapeIndex]] = set()
        outputs: set[ShapeIndex] = set()
        for alias in self._aliases:
            source = self._argument(program, alias.parameter, alias.parameter_index)
            target = _subshape(program.result, alias.output_index, "the result")
            if source.is_tuple or not source.compatible(target):
                raise BuildError(f"the output {target} cannot be written over {source}")
            key = alias.parameter, alias.parameter_index
            if key in taken or alias.output_index in outputs:
                raise BuildError(f"{alias} names an argument or output for a second time")
            taken.add(key)
            outputs.add(alias.output_index)
        for donor in self._donors:
            self._argument(program, donor.parameter, donor.parameter_index)
            key = donor.parameter, donor.parameter_index
            if key in taken:
                raise BuildError(f"{donor} is aliased or donated already")
            taken.add(key)

    def _argument(self, program: ProgramShape, number: int, index: ShapeIndex) -> Shape:
        if not 0 <= number < len(program.parameters):
            raise BuildError(f"there is no parameter {number} to alias or donate")
        return _subshape(program.parameters[number], index, f"parameter {number}")


def _subshape(shape: Shape, index: ShapeIndex, what: str) -> Shape:
    try:
        return shape.at(index)
    except IndexError as error:
        raise BuildError(f"{what}: {error}") from error
