"""The interpreter: runs computations instruction by instruction, in sequence order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from lowtide.evaluator.program import EvaluatorProgram, compile_program
from lowtide.evaluator.values import Value, Values
from lowtide.ir.computation import Computation
from lowtide.ir.module import Module

if TYPE_CHECKING:
    from lowtide.evaluator.device_groups import GroupDevice


@final
class Interpreter:
    """Runs the computations of one module on one device.

    `random_counter` is the state of `rng` and `rng-get-and-update-state`; their handlers advance
    it. It starts from the seed, so equal seeds give equal runs. `device` is the one of several
    that runs, None where there is one only.
    """

    __slots__ = ("_programs", "device", "module", "random_counter", "vector_programs")

    def __init__(self, module: Module, *, seed: int = 0, device: GroupDevice | None = None) -> None:
        self.module = module
        self.device = device
        self.random_counter = seed
        self._programs: dict[Computation, EvaluatorProgram] = {}
        self.vector_programs: dict[Computation, EvaluatorProgram | None] = {}
        """Owned by `vectorized`: programs that run at many positions at once."""

    def run(self, computation: Computation, arguments: Values) -> Value:
        """Return the value of the root for the given values of the parameters.

        A value is dropped after its last use, so that memory stays at the live set. Raises
        UnsupportedOpError at an instruction that cannot be evaluated.
        """
        return self.execute(self._program(computation), arguments)

    def execute(self, program: EvaluatorProgram, arguments: Values) -> Value:
        """Return what a program makes of the values of its parameters."""
        values: list[Any] = [None] * program.size
        for slot, constant in program.constants:
            values[slot] = constant
        for slot, argument in zip(program.parameters, arguments, strict=True):
            values[slot] = argument
        with np.errstate(all="ignore"):
            for step in program.steps:
                operands: list[Value] = [values[i] for i in step.operands]
                values[step.slot] = step.handler(self, step.instruction, operands)
                for slot in step.dead:
                    values[slot] = None
        result: Value = values[program.root]
        return result

    def _program(self, computation: Computation) -> EvaluatorProgram:
        program = self._programs.get(computation)
        if program is None or program.version != computation.version:
            program = self._programs[computation] = compile_program(computation)
        return program
