"""Modules under options: budgets, effort, stages, priorities, checks, threads, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, final

import numpy as np
from tests.hunting.arguments import case_arguments
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.family import HuntedCase, ModuleFamily, drawn_text
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.judges import Comparison, evaluated

from lowtide.budgeting.errors import OverMemoryError
from lowtide.client.executable.compiling import compile_module
from lowtide.client.executable.executable import Executable
from lowtide.evaluator import array_leaves
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Shape
from lowtide.ir.literal import Array
from lowtide.options import CHECKS, EFFORTS, TARGETS, Options
from lowtide.records import dataclass

_VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "stage": ("input", "simplified", "layout", "fused", "scheduled", "scheduled"),
    "effort": EFFORTS,
    "threads": (0, 1, 2, 3),
    "target": TARGETS,
    "huge_pages": (False, True),
    "memory_priority": (0.0, 0.03, 0.5, 10.0),
    "deadline": (None, None, 0.0, 0.2),
    "check": CHECKS,
    "isolate": (False,) * 19 + (True,),
}
_SHARES: Final = (None, None, 0.0, 0.5, 0.75, 0.9, 1.0, 1.5)
"""Budgets as parts of what the program needs without one."""

_SECONDS: Final = 1.0
"""How long plans within a budget are sought."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Options by name, a budget as a part of what is needed without one, and a seed of arguments.

    With `consume` the arguments that results overwrite are given away.
    """

    seed: int
    options: tuple[tuple[str, Any], ...]
    share: float | None
    consume: bool


@final
class UnderOptions(ModuleFamily):
    """Drawn modules, each compiled under options drawn for it."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The values of each option, and the budgets."""
        pairs = [("option", x, str(v)) for x, row in _VALUES.items() for v in dict.fromkeys(row)]
        return {
            "option": tuple(pairs),
            "budget": tuple([("budget", "memory", str(x)) for x in dict.fromkeys(_SHARES)]),
        }

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a module and options for it."""
        text = drawn_text(seed, random, counts)
        options = {name: random.choice(values) for name, values in _VALUES.items()}
        share = random.choice(_SHARES)
        if share is not None and options["deadline"] is None:
            options["deadline"] = _SECONDS
        chosen = Chosen(seed, tuple(options.items()), share, random.randrange(3) == 0)
        cells = {("option", name, str(value)) for name, value in options.items()}
        return HuntedCase(text, chosen, frozenset({*cells, ("budget", "memory", str(share))}))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where the program differs from the evaluator, or needs more than its budget."""
        return _OptionsCourt(case, tell).run()


def _laid_out(array: Array, shape: Shape) -> Array:
    """A copy in the layout of a shape, as what is given away has to lie."""
    order = shape.physical_order
    return array.transpose(order).copy().transpose(np.argsort(order))


class _OptionsCourt(Court):
    def __init__(self, case: HuntedCase, tell: Tell) -> None:
        super().__init__(tell)
        self.chosen: Chosen = case.conditions
        self.text = case.text

    def run(self) -> Judgement:
        module = parse_hlo(self.text)
        arguments = case_arguments(module, self.chosen.seed)
        expected = self.ask("evaluator", lambda: evaluated(module, arguments))
        if expected is not None:
            self._compare(module, arguments, expected)
        return self.judgement()

    def _compare(
        self, module: Module, arguments: Sequence[Array], expected: Sequence[Array]
    ) -> None:
        built = self.ask("compile", lambda: self._compiled(module))
        if built is None:
            return

        def called() -> list[Array]:
            leaves = [leaf.shape for leaf in parameter_leaves(module)]
            copies = [_laid_out(x, shape) for x, shape in zip(arguments, leaves, strict=True)]
            return array_leaves(built(*copies, consume=self.chosen.consume))

        compare = Comparison(module, arguments, expected)
        for judge in ("call", "second call"):
            got = self.ask(judge, called)
            words = None if got is None else compare.difference(got)
            if words is not None:
                self.found(judge, "wrong", words)

    def _compiled(self, module: Module) -> Executable | None:
        options = Options(cache=False, **dict(self.chosen.options))
        if self.chosen.share is None:
            return compile_module(module, options)
        needed = compile_module(module, options).arena_bytes
        budget = int(self.chosen.share * needed)
        limited = Options(cache=False, memory=budget, **dict(self.chosen.options))
        try:
            built = compile_module(module, limited)
        except OverMemoryError as error:
            if budget >= needed:
                self.found("budget", "refused", f"{needed} bytes are needed, {budget} given")
            self.silent.append(("compile", type(error).__name__))
            return None
        if built.arena_bytes > budget:
            self.found("budget", "exceeded", f"{built.arena_bytes} bytes, {budget} allowed")
        return built
