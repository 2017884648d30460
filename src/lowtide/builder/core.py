"""The state of building one computation, and the way in which each operation is added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lowtide.builder.literals import literal_of
from lowtide.builder.values import BuildError, Op, SubComputation, Value
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import MAIN_THREAD, NO_ATTRIBUTES, Attributes, Constant, Parameter
from lowtide.ir.clone import CloneMap, clone_computation
from lowtide.ir.computation import Computation
from lowtide.ir.element_type import BY_KEYWORD, ElementType
from lowtide.ir.errors import CannotInferError, ShapeError
from lowtide.ir.instruction import Instruction
from lowtide.ir.lazy_metadata import LazyMetadata
from lowtide.ir.metadata import NO_METADATA, Metadata
from lowtide.ir.module import Module
from lowtide.ir.names import sanitize
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import ProgramShape, Shape
from lowtide.ir.sharding import Sharding
from lowtide.ops.infer import infer_shape
from lowtide.ops.signature import check_shape, check_signature

if TYPE_CHECKING:
    from lowtide.builder.builder import Builder


class BuilderCore:
    """A computation that grows; each operation is checked and its shape inferred at once.

    Every mistake raises BuildError, which names the line of the caller.
    """

    def __init__(
        self,
        name: str = "main",
        *,
        execution_thread: str = MAIN_THREAD,
        computation: Computation | None = None,
        added: Callable[[Instruction], None] | None = None,
    ) -> None:
        self.name = name
        if computation is None:
            computation = Module(legal_name(name)).add_computation(legal_name(name))
            computation.execution_thread = execution_thread
        self._module = computation.module
        self._computation = computation
        self._added = added
        self._metadata: Metadata | LazyMetadata = NO_METADATA
        self._annotations = NO_ANNOTATIONS
        self._imported = CloneMap()
        self._origins: dict[Computation, Computation] = {}
        self._scalar_computations: dict[tuple[Opcode, ElementType], SubComputation] = {}
        self._parameter_numbers: set[int] = set()
        self._is_built = False

    # -- sources -------------------------------------------------------------------------------

    def parameter(self, number: int, shape: Shape, name: str = "") -> Op:
        """Return argument `number` of the computation, counted from 0."""
        if number in self._parameter_numbers:
            raise BuildError(f"parameter {number} exists already", operation="parameter")
        self._parameter_numbers.add(number)
        return self.emit(
            Opcode.PARAMETER, (), Parameter(number), shape=shape, name=name or f"p{number}"
        )

    def constant(self, value: Any, element_type: ElementType | None = None) -> Op:
        """Return a constant: a number, a NumPy array, nested lists of numbers, or a literal.

        Python numbers become pred, s32, f32 or c64 unless `element_type` says otherwise.
        """
        try:
            literal = literal_of(value, element_type)
        except (TypeError, ValueError) as error:
            raise BuildError(str(error), operation="constant") from error
        return self.emit(Opcode.CONSTANT, (), Constant(literal))

    def op(self, value: Value, like: ElementType | None = None) -> Op:
        """Return `value` as an operand of this builder; a number becomes a constant.

        `like` is the element type for Python numbers.
        """
        if isinstance(value, Op):
            return value
        is_python = isinstance(value, bool | int | float | complex | list)
        return self.constant(value, like if is_python else None)

    # -- adding operations ---------------------------------------------------------------------

    def emit(
        self,
        opcode: Opcode,
        operands: Sequence[Value] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: Sequence[SubComputation] = (),
        shape: Shape | None = None,
        name: str = "",
    ) -> Op:
        """Add an operation of any opcode and return its value.

        Without `shape` the shape is inferred; raises BuildError where it must be declared.
        """
        if self._is_built:
            raise BuildError(f"builder {self.name!r} is built already", operation=opcode.value)
        ops = [self._own(value, opcode, i) for i, value in enumerate(operands)]
        shapes = [op.shape for op in ops]
        programs = [sub.program_shape for sub in called]
        try:
            result = infer_shape(opcode, shapes, attributes, programs) if shape is None else shape
            check_shape(result)
            check_signature(opcode, result, shapes, attributes, programs)
        except (ShapeError, CannotInferError) as error:
            raise BuildError(str(error), operation=opcode.value) from error
        alone = opcode in _ONE_CALLER
        instruction = self._computation.add(
            opcode,
            result,
            tuple([op.instruction for op in ops]),
            attributes,
            tuple([self._embed(sub, alone=alone) for sub in called]),
            legal_name(name or self._stem() or opcode.value),
        )
        if self._metadata is not NO_METADATA:
            instruction.set_metadata(self._metadata)
        if self._annotations is not NO_ANNOTATIONS:
            instruction.set_annotations(self._annotations)
        if self._added is not None:
            self._added(instruction)
        return Op(cast("Builder", self), instruction)

    def _stem(self) -> str:
        """The name that operations get from where they come from."""
        return self._decoded().op_name.rpartition("/")[2]

    def _decoded(self) -> Metadata:
        found = self._metadata
        if not isinstance(found, Metadata):
            found = self._metadata = found.decode()
        return found

    def _own(self, value: Value, opcode: Opcode, number: int) -> Op:
        op = self.op(value)
        if op.builder is not self:
            raise BuildError(
                f"operand {number}, %{op.instruction.name}, belongs to builder "
                f"{op.builder.name!r}, not to {self.name!r}",
                operation=opcode.value,
            )
        return op

    # -- called computations -------------------------------------------------------------------

    def sub_builder(self, name: str, *, execution_thread: str | None = None) -> Builder:
        """Return a builder for a computation that is to be called from here.

        Metadata, shardings and attributes in force here are not passed on.
        """
        thread = execution_thread or self._computation.execution_thread
        return cast("Builder", type(self)(name, execution_thread=thread))

    def sub_computation(
        self, name: str, shapes: Sequence[Shape], function: Callable[..., Op]
    ) -> SubComputation:
        """Return the computation of what `function` returns for parameters of the given shapes."""
        child = self.sub_builder(name)
        return child.build_computation(
            function(*[child.parameter(i, shape) for i, shape in enumerate(shapes)])
        )

    def _embed(self, sub: SubComputation, *, alone: bool) -> Computation:
        """Return the copy of a computation in this module; one copy serves all calls.

        With `alone` it is another copy, which shares only what it calls in turn.
        """
        source = sub.computation
        known = self._imported.computations
        if source.module is self._module:
            return source
        if source in known and not alone:
            return known[source]
        # What the callee's own builder had copied is known here by its origin.
        for copy, origin in sub.origins.items():
            if origin in known:
                known.setdefault(copy, known[origin])
        shared = known.pop(source, None)
        mapping = CloneMap({}, known, self._imported.frame_offsets)
        result = clone_computation(source, self._module, mapping=mapping)
        own = [] if alone else [(source, source)]
        for copy, origin in [*sub.origins.items(), *own]:
            if copy in known:
                self._origins.setdefault(known[copy], origin)
                known.setdefault(origin, known[copy])
        if shared is not None:
            known[source] = shared
        elif alone:
            del known[source]
        return result

    # -- what is stamped on each operation -----------------------------------------------------

    @contextmanager
    def metadata(
        self, metadata: Metadata | LazyMetadata | None = None, **fields: Any
    ) -> Iterator[None]:
        """Stamp all operations made in the block with metadata, given whole or by its fields.

        The last component of `op_name` is the stem of their names.
        """
        saved = self._metadata
        if metadata is not None:
            self._metadata = metadata
        if fields:
            self._metadata = replace(self._decoded(), **fields)
        try:
            yield
        finally:
            self._metadata = saved

    @contextmanager
    def annotations(self, **fields: Any) -> Iterator[None]:
        """Stamp all operations made in the block with fields of `Annotations`."""
        saved = self._annotations
        if fields:
            self._annotations = replace(saved, **fields)
        try:
            yield
        finally:
            self._annotations = saved

    @contextmanager
    def sharding(self, sharding: Sharding | None) -> Iterator[None]:
        """Stamp all operations made in the block with a sharding, or with none."""
        with self.annotations(sharding=sharding):
            yield

    @contextmanager
    def frontend_attributes(self, attributes: Mapping[str, str]) -> Iterator[None]:
        """Add frontend attributes to all operations made in the block."""
        merged = {**dict(self._annotations.frontend_attributes), **attributes}
        with self.annotations(frontend_attributes=tuple(sorted(merged.items()))):
            yield

    # -- finishing -----------------------------------------------------------------------------

    def program_shape(self, root: Op | None = None) -> ProgramShape:
        """Return the type of the computation with this root (default: the last operation).

        Raises BuildError where the parameters are not numbered 0, 1, ... without gaps.
        """
        result = self._root(root)
        parameters = self._computation.parameters
        for expected, parameter in enumerate(parameters):
            number = parameter.attributes_as(Parameter).number
            if number != expected:
                raise BuildError(f"{self.name} has parameter {number}, but none {expected}")
        shapes = tuple([p.shape for p in parameters])
        return ProgramShape(shapes, result.shape, tuple([p.name for p in parameters]))

    def _root(self, root: Op | None) -> Op:
        if root is not None:
            if root.builder is not self:
                name = root.instruction.name
                raise BuildError(
                    f"the root %{name} of {self.name!r} belongs to builder {root.builder.name!r}"
                )
            return root
        if not self._computation.instructions:
            raise BuildError(f"{self.name} has no operation to return")
        last = next(reversed(self._computation.instructions.values()))
        return Op(cast("Builder", self), last)

    def build_computation(self, root: Op | None = None) -> SubComputation:
        """Return the computation, to be called from another builder; nothing can be added then."""
        return SubComputation(self._finish(root), self._origins)

    def _finish(self, root: Op | None) -> Computation:
        if self._is_built:
            raise BuildError(f"builder {self.name!r} is built already")
        self.program_shape(root)
        self._computation.root = self._root(root).instruction
        self._is_built = True
        return self._computation


_ONE_CALLER = frozenset({Opcode.FUSION, Opcode.ASYNC_START})
"""Operations that own their computation, which nothing else may call."""


def legal_name(name: str) -> str:
    """Return a name that HLO text can spell: legal characters, and no element type."""
    name = sanitize(name)
    return f"{name}_" if name in BY_KEYWORD and name not in ("tuple", "buffer") else name
