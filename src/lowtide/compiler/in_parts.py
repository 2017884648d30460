"""Programs whose largest values are computed in parts, where that saves more than it costs.

What a batch goes through without being summed up can run for one part of the batch after the other:
of what lies between, one part lives at a time. Each part reads the weights anew and starts its
kernels, which may take as much longer as other ways of spending time on memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from lowtide.compiler.options import PlanOptions
from lowtide.compiler.stages import cleaned
from lowtide.cost.kernels import move_seconds
from lowtide.cost.machine import Machine
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.passes import Step, run_pipeline
from lowtide.passes.registry import parse_passes

if TYPE_CHECKING:
    from lowtide.transforms.memory.split.sections import Section

Needs: TypeAlias = tuple[int, float]
"""Bytes live at the peak, and seconds."""

LEAST_BYTES: Final = 16 << 20
"""Peaks of fewer bytes stay: caches hold most of them."""

_LEAST_VALUE: Final = LEAST_BYTES // 16
_MOST_INSTRUCTIONS: Final = 5_000
"""In larger programs it takes long to find what to run in parts."""

_LEAST_SHARE: Final = 8
"""At least such a part of the peak has to be saved."""

_GAINED: Final = 2
"""Up to so many times the time allowed, what parts move more may be made good by their kernels."""

_PRIORITY_SHARE: Final = 3
"""What part of the time that memory is worth may be spent so: of parts the model knows less."""

_CONTRACTIONS: Final = frozenset({Opcode.CONVOLUTION, Opcode.DOT})

_FEWEST: Final = 2
_MORE: Final = (8, 4)
"""Numbers of parts; more than the fewest are tried where these take little time."""


Kernels = TypeVar("Kernels")
Propose: TypeAlias = Callable[[Module], tuple[Kernels, Needs]]
"""What kernels a module would have, and what it needs then; the module stays as it is."""


def is_worth_parts(module: Module, options: PlanOptions) -> bool:
    """Whether a module is small, has large values, and may take time for memory."""
    if not options.memory_priority or module.instruction_count > _MOST_INSTRUCTIONS:
        return False
    values = [x for c in module.computations.values() for x in c.instructions.values()]
    made = [x for x in values if x.opcode is not Opcode.PARAMETER and x.shape.is_array]
    return max([x.shape.nbytes for x in made], default=0) >= _LEAST_VALUE


def in_parts(
    module: Module, before: Needs, options: PlanOptions, propose: Propose[Kernels]
) -> tuple[Kernels, Module, tuple[Step, ...]] | None:
    """Return the kernels of a module in parts, that module, and the steps behind "layout" to it.

    None where it needs no less so, or takes longer than it may; `before` is what it needs as it is,
    at the stage "layout".
    """
    longer = before[1] * options.memory_priority / _PRIORITY_SHARE
    most = before[1] + longer
    least = before[0] - before[0] // _LEAST_SHARE
    best: tuple[Kernels, Module, tuple[Step, ...]] | None = None
    parts = _FEWEST
    while before[0] >= LEAST_BYTES and not options.deadline.passed:
        # How much longer a part takes is known from the second trial on.
        rereading = longer * _GAINED if parts == _FEWEST else inf
        trial, steps = clone_module(module), _steps(parts, rereading, options)
        if not run_pipeline(trial, steps[:1]):
            break
        run_pipeline(trial, steps[1:])
        kernels, (nbytes, seconds) = propose(trial)
        if seconds > most:
            break
        if nbytes <= least:
            best, least = (kernels, trial, steps), nbytes - 1
        each = (seconds - before[1]) / (parts - 1)
        more = [x for x in _MORE if before[1] + each * (x - 1) <= most]
        if parts > _FEWEST or not more:
            break
        parts = more[0]
    return best


def _steps(parts: int, most_seconds: float, options: PlanOptions) -> tuple[Step, ...]:
    """The pass that runs values in parts, and those behind it.

    Sections stay whole that move more bytes in parts for longer than `most_seconds`.
    """
    machine = options.target.machine

    def admits(section: Section) -> bool:
        return _rereading_seconds(section, parts, machine) <= most_seconds

    (split,) = parse_passes(f"split-large-instructions{{parts={parts},sums=false}}")
    return (split.told({"admits": admits}), *cleaned())


def _rereading_seconds(section: Section, parts: int, machine: Machine) -> float:
    """Return the seconds that contractions move more bytes where a section runs in parts.

    Each part reads anew what all parts need as a whole, such as the weights of a network, and what
    contractions read of a larger array has to be cut out of it first.
    """
    from lowtide.transforms.memory.split.alignments import WHOLE  # Of large values only.

    total = 0.0
    for x, how in section.how.items():
        if x.opcode not in _CONTRACTIONS:
            continue
        for operand, dimension in zip(x.operands, how.operands, strict=True):
            nbytes = operand.shape.nbytes
            if dimension == WHOLE:
                total += (parts - 1) * move_seconds(nbytes, machine)
            elif not section.reads_part(operand, dimension):
                total += 2 * parts * move_seconds(nbytes // parts, machine)
    return total
