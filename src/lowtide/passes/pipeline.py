"""Pipelines: passes one after the other, some of them until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lowtide.ir import Module
from lowtide.passes.interface import Pass


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Passes that run in turn until a whole round changes nothing, `most_rounds` times at most."""

    name: str
    steps: tuple[Step, ...]
    most_rounds: int = 25


Step: TypeAlias = "Pass | Fixpoint"


class Observer(Protocol):
    """Looks on while a pipeline runs; it must not change the module."""

    def begin(self, module: Module) -> None:
        """Look at the module before the first pass."""

    def allows(self, step: Pass) -> bool:
        """Return whether a pass may run; one that may not is left out."""

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Look at the module after a pass, which made so many changes."""

    def end(self, module: Module) -> None:
        """Look at the module after the last pass."""


def run_pipeline(module: Module, steps: Sequence[Step], observers: Sequence[Observer] = ()) -> int:
    """Run passes over a module; return the number of changes."""
    for observer in observers:
        observer.begin(module)
    changes = _run(module, steps, observers)
    for observer in observers:
        observer.end(module)
    return changes


def _run(module: Module, steps: Sequence[Step], observers: Sequence[Observer]) -> int:
    total = 0
    for step in steps:
        if isinstance(step, Pass):
            total += _run_pass(module, step, observers)
            continue
        for _ in range(step.most_rounds):
            changes = _run(module, step.steps, observers)
            total += changes
            if not changes:
                break
    return total


def _run_pass(module: Module, step: Pass, observers: Sequence[Observer]) -> int:
    if not all(observer.allows(step) for observer in observers):
        return 0
    changes = step.run(module)
    for observer in observers:
        observer.ran(step, module, changes)
    return changes
