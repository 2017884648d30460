"""Modules on one device: every judge that there is, and bounds held against orders."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import final

from tests.hunting.cells import Cell, cells_of
from tests.hunting.coverage import CellCounts, wished
from tests.hunting.family import HuntedCase, Shows, opcodes_of, smaller_module
from tests.hunting.findings import Judgement, Tell
from tests.hunting.judges import Conditions, ModuleCourt
from tests.hunting.mutations import mutated
from tests.hunting.writing import DrawnModule, draw_module

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.verifier import verify

_RECENT = 200


@final
class Modules:
    """Modules drawn for what was reached least, or changed from one that reached a new cell."""

    def __init__(self) -> None:
        self._recent: list[DrawnModule] = []

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The cells of coverage, by table."""
        return wished()

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a valid module and the conditions under which it is judged."""
        drawn = self._drawn(seed, random, counts)
        module = parse_hlo(drawn.text)
        verify(module)
        cells = frozenset({*cells_of(module), *drawn.notes})
        if any(x not in counts.reached for x in cells):
            self._recent = [*self._recent[-_RECENT:], drawn]
        return HuntedCase(drawn.text, conditions_of(seed, random), cells)

    def _drawn(self, seed: int, random: Random, counts: CellCounts) -> DrawnModule:
        if self._recent and random.randrange(5) == 0:
            old = random.choice(self._recent)
            return DrawnModule(mutated(old.text, random), old.notes)
        return draw_module(seed, counts.wish(random))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return what the evaluator, XLA:CPU, native code and the checks of plans say."""
        return ModuleCourt(case.text, case.conditions, tell).run()

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return the least module that shows the same."""
        return smaller_module(case, shows)

    def words(self, case: HuntedCase) -> str:
        """Return the operations of the module."""
        return opcodes_of(case)


@final
class Orders:
    """Modules whose bounds are held against many orders, and nothing else."""

    def __init__(self) -> None:
        self._modules = Modules()

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The cells of coverage, by table."""
        return wished()

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a valid module; so many orders of it are tried."""
        case = self._modules.draw(seed, random, counts)
        return replace(case, conditions=Conditions(seed, orders=random.choice((6, 6, 24))))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return whether an order needs less than the bound."""
        return ModuleCourt(case.text, case.conditions, tell).run_orders()

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return the least module that shows the same."""
        return smaller_module(case, shows)

    def words(self, case: HuntedCase) -> str:
        """Return the operations of the module."""
        return opcodes_of(case)


def conditions_of(seed: int, random: Random) -> Conditions:
    """Return conditions under which a module is judged."""
    return Conditions(
        seed,
        random.choice((1, 1, 2)),
        random.choice(("native", "native", "avx2")),
        random.choice(("fast", "fast", "fast", "default")),
        random.choice((("scheduled",), ("scheduled", "input"), ("input",))),
        random.choice((0, 0, 0, 6)),
    )
