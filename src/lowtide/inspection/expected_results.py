"""Expected results of kernels: the evaluator's, and the distance that is allowed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lowtide.client.errors import SanitizerError
from lowtide.evaluator import TOKEN, Interpreter, Value, array_leaves, evaluate
from lowtide.evaluator.device_groups import GroupDevice
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.evaluator.registry import handlers
from lowtide.evaluator.values import from_leaves
from lowtide.inspection.reducer_order import depends_on_order
from lowtide.inspection.roundings import beyond_noise, first_difference, moved_by_roundings
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.ir.shape import tuple_shape

MOST_FACTOR: Final = 64.0
"""By how much errors of one kernel may exceed those of one operation, however many it does."""

WHOLE_FACTOR: Final = 256.0
"""The same for a whole program."""

_STATEFUL: Final = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})
"""Operations whose results differ from run to run."""

_UNDEFINED: Final = "AllocateBuffer"
"""The target of custom calls whose result may be anything."""


class Expected:
    """Compares kernels of one module; `not_compared` collects what the evaluator does not say."""

    def __init__(self, module: Module, device: GroupDevice | None = None) -> None:
        self._interpreter = Interpreter(module, device=device)
        self.not_compared: set[str] = set()

    def collective_difference(
        self, instruction: Instruction, operands: Sequence[Array], found: Sequence[Array]
    ) -> str:
        """Return how what a device received differs from the evaluator's, or "".

        All devices of the group have to ask, since they meet in the evaluator too. `found` are the
        last arrays of the result.
        """
        expected = self._evaluated(instruction, operands)[-len(found) :]
        shapes = [leaf for _, leaf in instruction.shape.leaves() if leaf.is_array][-len(found) :]
        wrong = first_difference(tuple_shape(shapes), found, expected, _factor(instruction))
        return "" if wrong is None else f"result {wrong[0]}: {wrong[1]}"

    def difference(
        self, instruction: Instruction, operands: Sequence[Array], found: Sequence[Array]
    ) -> str:
        """Return how the results of a kernel differ from the evaluator's on its operands, or "".

        Results that hang on the last bits of operands may differ as far as these move them.
        """
        if not _is_determined(instruction):
            self.not_compared.add(instruction.name)
            return ""
        try:
            expected = self._evaluated(instruction, operands)
        except UnsupportedOpError:
            self.not_compared.add(instruction.name)
            return ""
        wrong = first_difference(instruction.shape, found, expected, _factor(instruction))
        if wrong is None:
            return ""
        if depends_on_order(self._interpreter, instruction):
            self.not_compared.add(instruction.name)
            return ""
        noises = [self._evaluated(instruction, moved) for moved in moved_by_roundings(operands)]
        return beyond_noise(instruction.shape, found, expected, noises, _factor(instruction))

    def _evaluated(self, instruction: Instruction, operands: Sequence[Array]) -> list[Array]:
        """The arrays of an instruction's result for the arrays of its operands."""
        arrays = iter(operands)
        values: list[Value] = []
        for operand in instruction.operands:
            leaves = [
                next(arrays) if leaf.is_array else TOKEN for _, leaf in operand.shape.leaves()
            ]
            values.append(from_leaves(operand.shape, leaves))
        handler = handlers().get(instruction.opcode)
        if handler is None:
            raise UnsupportedOpError(instruction.opcode.value)
        with np.errstate(all="ignore"):
            return _arrays(handler(self._interpreter, instruction, values))

    def check_whole(
        self, module: Module, arguments: Sequence[Array], found: Sequence[Array]
    ) -> None:
        """Raise SanitizerError where results of the program are not those of its module."""
        if self.not_compared:
            return
        wrong = whole_difference(module, arguments, found)
        if wrong:
            raise SanitizerError(
                f"{module.name}: each thunk is right, but the results are not the evaluator's: "
                f"{wrong}; thunks read or write other slices than they should"
            )


def whole_difference(module: Module, arguments: Sequence[Array], found: Sequence[Array]) -> str:
    """Return how results differ from what the evaluator makes of a module, or ""."""
    shape = module.entry.root.shape
    expected = _arrays(evaluate(module, arguments))
    if first_difference(shape, found, expected, WHOLE_FACTOR) is None:
        return ""
    noises = [_arrays(evaluate(module, moved)) for moved in moved_by_roundings(arguments)]
    return beyond_noise(shape, found, expected, noises, WHOLE_FACTOR)


def difference_on_devices(
    module: Module, arguments: Sequence[Sequence[Array]], found: Sequence[Sequence[Array]]
) -> str:
    """Return how results of devices differ from what the evaluator makes of a module, or ""."""
    shape = module.entry.root.shape
    expected = [_arrays(x) for x in evaluate_on_devices(module, arguments)]
    pairs = list(zip(found, expected, strict=True))
    if all(first_difference(shape, *pair, WHOLE_FACTOR) is None for pair in pairs):
        return ""
    runs = [
        [_arrays(x) for x in evaluate_on_devices(module, moved)]
        for moved in zip(*[moved_by_roundings(one) for one in arguments], strict=True)
    ]
    for number, pair in enumerate(pairs):
        wrong = beyond_noise(shape, *pair, [run[number] for run in runs], WHOLE_FACTOR)
        if wrong:
            return f"on device {number} {wrong}"
    return ""


def undetermined(module: Module) -> tuple[str, ...]:
    """Return the instructions of a module, sorted, of which the evaluator says no one result."""
    interpreter = Interpreter(module)
    found = [
        x.name
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if not _is_determined(x) or depends_on_order(interpreter, x)
    ]
    return tuple(sorted(found))


def _is_determined(instruction: Instruction) -> bool:
    stack = [instruction]
    while stack:
        x = stack.pop()
        if x.opcode in _STATEFUL:
            return False
        attributes = x.attributes
        if isinstance(attributes, CustomCall) and _is_free(attributes.target):
            return False
        for computation in x.called_computations:
            stack.extend(computation.instructions.values())
    return True


def _is_free(target: str) -> bool:
    """Whether a custom call may return one of several results: vectors of either sign, say."""
    return target == _UNDEFINED or (
        target.startswith(_LAPACK) and any(routine in target for routine in _SIGNLESS)
    )


_LAPACK: Final = "lapack_"
_SIGNLESS: Final = ("gees", "geev", "gesdd", "gesvd", "heevd", "syevd")
"""Routines whose vectors are right with any factor of modulus 1, and NaN where they fail."""


def _factor(instruction: Instruction) -> float:
    """By how much a kernel may exceed the error of one operation: it may do many in turn."""
    count = sum([len(x.instructions) for x in instruction.called_computations])
    return min(max(float(count), 1.0), MOST_FACTOR)


def _arrays(value: Value) -> list[Array]:
    return [np.asarray(x) for x in array_leaves(value)]
