"""Operations that call computations, and the structure around them."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.builder.core import BuilderCore
from lowtide.builder.data_movement import one_or_more
from lowtide.builder.values import BuildError, Op, SubComputation, Value
from lowtide.ir.attributes import (
    Aliasing,
    Async,
    Call,
    Conditional,
    CopyStart,
    CustomCall,
    Dimensions,
    Fusion,
    GetTupleElement,
    ReduceWindow,
    Scan,
    Sort,
    TopK,
    Window,
)
from lowtide.ir.element_type import ElementType
from lowtide.ir.opcode import Opcode
from lowtide.ir.shape import Shape, array_shape, tuple_shape


class CallOps(BuilderCore):
    """Calls, loops, branches, reductions, sorting, asynchronous calls, tuples and tokens."""

    # -- control flow --------------------------------------------------------------------------

    def call(
        self,
        operands: Op | Sequence[Value],
        to_apply: SubComputation,
        *,
        is_composite: bool = False,
    ) -> Op:
        """Return the result of a computation."""
        return self.emit(Opcode.CALL, one_or_more(operands), Call(is_composite), [to_apply])

    def while_(self, condition: SubComputation, body: SubComputation, init: Value) -> Op:
        """Return `init` after as many steps of the body as the condition holds."""
        return self.emit(Opcode.WHILE, [init], called=[condition, body])

    def conditional(
        self, selector: Value, operands: Sequence[Value], branches: Sequence[SubComputation]
    ) -> Op:
        """Return the result of the branch that `selector` chooses, for its own operand.

        A pred chooses branch 0 where it is true, else branch 1; an s32 is the number of the branch,
        the last one where it is out of range.
        """
        op = self.op(selector)
        attributes = Conditional(op.element_type is ElementType.PRED)
        return self.emit(Opcode.CONDITIONAL, [op, *operands], attributes, branches)

    def fusion(
        self,
        operands: Op | Sequence[Value],
        calls: SubComputation,
        kind: str = "kLoop",
        output_to_operand_aliasing: Sequence[Aliasing] = (),
    ) -> Op:
        """Return the result of a computation that runs as one kernel."""
        attributes = Fusion(kind, tuple(output_to_operand_aliasing))
        result = calls.program_shape.result
        return self.emit(Opcode.FUSION, one_or_more(operands), attributes, [calls], shape=result)

    def custom_call(
        self,
        target: str | CustomCall,
        operands: Op | Sequence[Value],
        shape: Shape,
        called: Sequence[SubComputation] = (),
        backend_config: str | None = None,
    ) -> Op:
        """Return the result of a function outside of HLO; `target` may be the whole record."""
        if isinstance(target, str):
            target = CustomCall(target)
        values = one_or_more(operands)
        if backend_config is None:
            return self.emit(Opcode.CUSTOM_CALL, values, target, called, shape)
        with self.annotations(backend_config=backend_config):
            return self.emit(Opcode.CUSTOM_CALL, values, target, called, shape)

    # -- reductions ----------------------------------------------------------------------------

    def map(self, operands: Op | Sequence[Value], to_apply: SubComputation) -> Op:
        """Return the result of a computation of scalars for each element."""
        ops = [self.op(value) for value in one_or_more(operands)]
        dimensions = tuple(range(ops[0].rank)) if ops else ()
        return self.emit(Opcode.MAP, ops, Dimensions(dimensions), [to_apply])

    def reduce(
        self,
        operands: Op | Sequence[Value],
        inits: Value | Sequence[Value],
        to_apply: SubComputation,
        dimensions: Sequence[int] | None = None,
    ) -> Op:
        """Return the operands folded along some dimensions (default: all), from initial values."""
        values = self._with_inits(operands, inits)
        reduced = range(values[0].rank if values else 0) if dimensions is None else dimensions
        return self.emit(Opcode.REDUCE, values, Dimensions(tuple(reduced)), [to_apply])

    def reduce_window(
        self,
        operands: Op | Sequence[Value],
        inits: Value | Sequence[Value],
        to_apply: SubComputation,
        window: Window,
    ) -> Op:
        """Return the operands folded within each position of a window, from initial values."""
        values = self._with_inits(operands, inits)
        return self.emit(Opcode.REDUCE_WINDOW, values, ReduceWindow(window), [to_apply])

    def _with_inits(
        self, operands: Op | Sequence[Value], inits: Value | Sequence[Value]
    ) -> list[Op]:
        ops = [self.op(value) for value in one_or_more(operands)]
        starts = inits if isinstance(inits, list | tuple) else [inits]
        types = [op.element_type for op in ops] + [None] * len(starts)
        found = [self.op(start, like) for start, like in zip(starts, types, strict=False)]
        return [*ops, *found]

    def select_and_scatter(
        self,
        operand: Value,
        select: SubComputation,
        window: Window,
        source: Value,
        init: Value,
        scatter: SubComputation,
    ) -> Op:
        """Return the source, scattered to the element that `select` prefers in each window."""
        op = self.op(operand)
        values = [op, source, self.op(init, op.element_type)]
        return self.emit(Opcode.SELECT_AND_SCATTER, values, ReduceWindow(window), [select, scatter])

    def scan(
        self,
        operands: Op | Sequence[Value],
        carries: Op | Sequence[Value],
        to_apply: SubComputation,
        dimension: int,
        *,
        is_reverse: bool = False,
        is_associative: bool = False,
    ) -> Op:
        """Return the outputs of a computation stepped along a dimension, then the last carries."""
        starts = one_or_more(carries)
        attributes = Scan(dimension, len(starts), is_reverse, is_associative)
        return self.emit(Opcode.SCAN, [*one_or_more(operands), *starts], attributes, [to_apply])

    def sort(
        self,
        operands: Op | Sequence[Value],
        comparator: SubComputation,
        dimension: int = -1,
        *,
        is_stable: bool = False,
    ) -> Op:
        """Return the operands reordered together along a dimension (-1: the last one)."""
        ops = [self.op(value) for value in one_or_more(operands)]
        if dimension < 0 and ops:
            dimension += ops[0].rank
        return self.emit(Opcode.SORT, ops, Sort(dimension, is_stable), [comparator])

    def topk(self, operand: Value, k: int, *, largest: bool = True, is_stable: bool = True) -> Op:
        """Return the k greatest elements of each row, and their positions."""
        return self.emit(Opcode.TOPK, [operand], TopK(k, largest, is_stable))

    # -- asynchronous calls and copies ---------------------------------------------------------

    def async_start(
        self,
        operands: Op | Sequence[Value],
        calls: SubComputation,
        contexts: Sequence[Shape] = (),
        output_to_operand_aliasing: Sequence[Aliasing] = (),
    ) -> Op:
        """Start a computation on its thread: ((operands), result, contexts)."""
        ops = [self.op(value) for value in one_or_more(operands)]
        thread = calls.computation.execution_thread
        shape = tuple_shape(
            [tuple_shape([op.shape for op in ops]), calls.program_shape.result, *contexts]
        )
        attributes = Async(thread, tuple(output_to_operand_aliasing))
        return self.emit(Opcode.ASYNC_START, ops, attributes, [calls], shape)

    def async_update(self, start: Op) -> Op:
        """Return a point between the start and the end of an asynchronous computation."""
        return self.emit(Opcode.ASYNC_UPDATE, [start], self._async(start), self._wrapped(start))

    def async_done(self, start: Op) -> Op:
        """Return the result of an asynchronous computation."""
        return self.emit(Opcode.ASYNC_DONE, [start], self._async(start), self._wrapped(start))

    def _async(self, start: Op) -> Async:
        attributes = start.instruction.attributes
        if not isinstance(attributes, Async):
            raise BuildError(f"{start} was not started by async_start")
        return Async(attributes.execution_thread)

    def _wrapped(self, start: Op) -> list[SubComputation]:
        return [SubComputation(c) for c in start.instruction.called_computations]

    def copy_start(self, operand: Value) -> Op:
        """Start a copy: (destination, source, context)."""
        return self.emit(Opcode.COPY_START, [operand], CopyStart())

    def copy_done(self, start: Op) -> Op:
        """Return the result of an asynchronous copy."""
        return self.emit(Opcode.COPY_DONE, [start])

    # -- tuples and tokens ---------------------------------------------------------------------

    def tuple(self, operands: Sequence[Value]) -> Op:
        """Return the tuple of the operands."""
        return self.emit(Opcode.TUPLE, operands)

    def get_tuple_element(self, operand: Op, index: int) -> Op:
        """Return one element of a tuple."""
        return self.emit(Opcode.GET_TUPLE_ELEMENT, [operand], GetTupleElement(index))

    def after_all(self, tokens: Sequence[Op] = ()) -> Op:
        """Return a token that is ready once all others are."""
        return self.emit(Opcode.AFTER_ALL, tokens)

    def add_dependency(self, operand: Value, token: Op) -> Op:
        """Return the operand, not before the token."""
        return self.emit(Opcode.ADD_DEPENDENCY, [operand, token])

    def opt_barrier(self, operand: Value) -> Op:
        """Return the operand; no optimization looks through."""
        return self.emit(Opcode.OPTIMIZATION_BARRIER, [operand])

    # -- ready-made computations ---------------------------------------------------------------

    def scalar_computation(self, opcode: Opcode, element_type: ElementType) -> SubComputation:
        """Return the computation of one binary operation on scalars, e.g. to reduce with.

        One computation serves all calls with the same arguments.
        """
        key = (opcode, element_type)
        found = self._scalar_computations.get(key)
        if found is None:
            scalar = array_shape(element_type)
            name = f"{opcode.value}_{element_type.value}"
            child = self.sub_builder(name)
            operands = [child.parameter(i, scalar, "xy"[i]) for i in range(2)]
            found = child.build_computation(child.emit(opcode, operands))
            self._scalar_computations[key] = found
        return found
