"""Observers of pipelines: times, checks, dumps, and stopping after so many passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Final, final

from lowtide.ir import LowtideError, Module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.passes.interface import Pass, PassError
from lowtide.records import dataclass


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
    """The number of runs of a pass, the changes that it made, and the seconds that it took."""

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
    found, and how to see the module before it: in the file that `dumping` writes for it, or by the
    number of passes to run. Stands before `dumping` among the observers.
    """

    def __init__(self, verify: Callable[[Module], None], dumping: Dumping | None = None) -> None:
        self._verify = verify
        self._dumping = dumping
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
            finding = f"left a module that is not valid: {error}"
            raise self._broken(step, module, finding) from error
        text = to_text(module, COMPLETE)
        if (text != self._text) != bool(changes):
            did = "changed the module" if text != self._text else "changed nothing"
            finding = f"{did}, but says that it made {changes} changes"
            raise self._broken(step, module, finding)
        self._text = text

    def _broken(self, step: Pass, module: Module, finding: str) -> BrokenPassError:
        before = f"--passes-until {self._count - 1} shows"
        if self._dumping is not None:
            stage = f"{self._count:04}.before_{step.name}"
            before = f"{self._dumping.write(module, stage, self._text)} is"
        return BrokenPassError(f"pass {step} {finding}; {before} the module before it")


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


_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 120


def dump_name(number: int, module: Module, stage: str) -> str:
    """Return the name of a file about a module, as XLA dumps it, but for the extension.

    Characters of the module's name that a file name cannot have, or that end its part of it, become
    underscores.
    """
    name = _UNFIT.sub("_", module.name)[:_LONGEST_NAME]
    return f"module_{number:04}.{name}.{stage}"


@final
class Dumping(Observing):
    """Writes the text of the module before and after all passes, and after those that match.

    The names are those of XLA's dumps: `module_0001.NAME.before_optimizations.txt`,
    `module_0001.NAME.0003.after_PASS.txt`, `module_0001.NAME.after_optimizations.txt`; `number`
    comes first in them, and the second one counts the passes that ran. A pass that changed nothing
    has no file. `write` takes a name and a text, and returns what to call the file. Raises
    PassError where `pattern` is no regular expression; "" matches no pass.
    """

    def __init__(
        self, write: Callable[[str, str], object], pattern: str = "", number: int = 1
    ) -> None:
        try:
            self._pattern = re.compile(pattern) if pattern else None
        except re.error as error:
            raise PassError(f"{pattern!r} is no regular expression: {error}") from error
        self._write = write
        self._number = number
        self._count = 0
        self.matched = False
        """Whether the name of a pass that ran matches, changes or not."""

    def begin(self, module: Module) -> None:
        """Write the module as it came."""
        self.write(module, "before_optimizations", to_text(module, COMPLETE))

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        """Write the module where the pass changed it and its name matches."""
        self._count += 1
        if self._pattern is None or not self._pattern.search(step.name):
            return
        self.matched = True
        if changes:
            stage = f"{self._count:04}.after_{step.name}"
            self.write(module, stage, to_text(module, COMPLETE))

    def end(self, module: Module) -> None:
        """Write the module as it is now."""
        self.write(module, "after_optimizations", to_text(module, COMPLETE))

    def write(self, module: Module, stage: str, text: str) -> object:
        """Write a text about a module, and return what the file is called."""
        return self._write(f"{dump_name(self._number, module, stage)}.txt", text)
