"""Pipelines: passes one after the other, some of them until nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, final

from lowtide.ir import Module
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.kept import forget_kept
from lowtide.passes.interface import Pass
from lowtide.passes.needs import Feature, features_of
from lowtide.records import dataclass


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


def run_pipeline(
    module: Module,
    steps: Sequence[Step],
    observers: Sequence[Observer] = (),
    *,
    keeps: bool = False,
) -> int:
    """Run passes over a module; return the number of changes.

    A pass that found nothing to do is left out until another one has changed something, and one
    that needs what the module has not is left out. With `keeps`, what analyses found stays with the
    module for those who ask next; else it is forgotten.
    """
    for observer in observers:
        observer.begin(module)
    run = _Run(module, observers)
    with without_collection():
        run.all_of(steps)
        if not keeps:
            forget_kept(module)
    for observer in observers:
        observer.end(module)
    return run.changes


@final
class _Run:
    """Passes on their way over a module, and which of them would find nothing to do."""

    def __init__(self, module: Module, observers: Sequence[Observer]) -> None:
        self.changes = 0
        self._module = module
        self._observers = observers
        self._idle: set[Pass] = set()
        self._features: frozenset[Feature] | None = None
        """What the module has, None where that is not known since the last change."""

    def all_of(self, steps: Sequence[Step]) -> int:
        """Run steps one after the other; return the number of changes."""
        before = self.changes
        for step in steps:
            if isinstance(step, Pass):
                self._one(step)
                continue
            for _ in range(step.most_rounds):
                if not self.all_of(step.steps):
                    break
        return self.changes - before

    def _one(self, step: Pass) -> None:
        if step in self._idle or not all(x.allows(step) for x in self._observers):
            return
        changes = self._run(step) if self._may_find(step) else 0
        if changes:
            self.changes += changes
            self._idle.clear()
            self._features = None
        else:
            self._idle.add(step)
        for observer in self._observers:
            observer.ran(step, self._module, changes)

    def _may_find(self, step: Pass) -> bool:
        """Whether the module has what a pass needs."""
        if not step.needs:
            return True
        if self._features is None:
            self._features = features_of(self._module)
        features = self._features
        return all(not features.isdisjoint(x) for x in step.needs)

    def _run(self, step: Pass) -> int:
        try:
            return step.run(self._module)
        except Exception as error:
            error.add_note(f"in pass {step} of module {self._module.name}")
            raise
