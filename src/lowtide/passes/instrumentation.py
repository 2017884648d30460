"""Observers of pipelines: times, checks, dumps, and stopping after so many passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import final

from lowtide.ir import LowtideError, Module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.passes.interface import Pass, PassError


class Observing:
    """An observer that lets everything run and says nothing: the others replace what they need."""

    def begin(self, module: Module) -> None:
        """Look at the module before the first pass."""

    def allows(self, step: Pass) -> bool:
        """Return whether a pass may run."""
        return True

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Look at the module after a pass."""

    def end(self, module: Module) -> None:
        """Look at the module after the last pass."""


@dataclass(slots=True)
class PassTime:
    """How often a pass ran, how many changes it made, and how many seconds it took."""

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


@final
class Timing(Observing):
    """Wall seconds and changes by pass, in order of first run."""

    def __init__(self) -> None:
        self.passes: dict[str, PassTime] = {}
        self._start = 0.0

    def allows(self, step: Pass) -> bool:
        """Start the clock."""
        self._start = perf_counter()
        return True

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Stop the clock."""
        row = self.passes.setdefault(step.name, PassTime())
        row.runs += 1
        row.changes += changes
        row.seconds += perf_counter() - self._start


class BrokenPassError(LowtideError):
    """A pass left a module that is not valid."""


@final
class Checking(Observing):
    """Verifies the module after each pass that changed it.

    `verify` raises LowtideError for a module that is not valid. The error names the pass, what was
    found, and the number of passes to run in order to see the module before it.
    """

    def __init__(self, verify: Callable[[Module], None]) -> None:
        self._verify = verify
        self._count = 0
        self._text = ""

    def begin(self, module: Module) -> None:
        """Keep the text of the module, to notice changes that a pass does not own up to."""
        self._text = to_text(module, COMPLETE)

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Verify the module; raise BrokenPassError where it is not valid."""
        self._count += 1
        try:
            self._verify(module)
        except LowtideError as error:
            raise BrokenPassError(
                f"pass {step} left a module that is not valid: {error}; "
                f"--passes-until {self._count - 1} shows the module before it"
            ) from error
        text = to_text(module, COMPLETE)
        if (text != self._text) != bool(changes):
            did = "changed the module" if text != self._text else "changed nothing"
            raise BrokenPassError(f"pass {step} {did}, but says that it made {changes} changes")
        self._text = text


@final
class PassesUntil(Observing):
    """Lets the first `count` passes run; for finding the one that is wrong by bisection."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.last: Pass | None = None
        """The last pass that ran."""

    def allows(self, step: Pass) -> bool:
        """Return whether there are passes left."""
        if self._left <= 0:
            return False
        self._left -= 1
        self.last = step
        return True


@final
class Dumping(Observing):
    """Writes the text of the module before and after all passes, and after those that match.

    The names are those of XLA's dumps: `module_0001.NAME.before_optimizations.txt`,
    `module_0001.NAME.0003.after_PASS.txt`, `module_0001.NAME.after_optimizations.txt`. A pass that
    changed nothing has no file. `write` takes a name and a text.
    """

    def __init__(self, write: Callable[[str, str], None], pattern: str = "") -> None:
        try:
            self._pattern = re.compile(pattern) if pattern else None
        except re.error as error:
            raise PassError(f"{pattern!r} is no regular expression: {error}") from error
        self._write = write
        self._count = 0

    def begin(self, module: Module) -> None:
        """Write the module as it came."""
        self._dump(module, "before_optimizations")

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Write the module where the pass changed it and its name matches."""
        self._count += 1
        if changes and self._pattern is not None and self._pattern.search(step.name):
            self._dump(module, f"{self._count:04}.after_{step.name}")

    def end(self, module: Module) -> None:
        """Write the module as it is now."""
        self._dump(module, "after_optimizations")

    def _dump(self, module: Module, stage: str) -> None:
        self._write(f"module_0001.{module.name}.{stage}.txt", to_text(module, COMPLETE))
