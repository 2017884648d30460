"""The common part of families of modules: a drawn module without what its entry adds to it."""

from __future__ import annotations

import re
from random import Random

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.hunting.coverage import CellCounts
from lowtide.testing.hunting.family import HuntedCase, Shows, opcodes_of, smaller_module
from lowtide.testing.hunting.writing import draw_module
from lowtide.verifier import verify


class ModuleFamily:
    """Cases whose text is a module, made smaller as modules are."""

    def smaller(self, case: HuntedCase, shows: Shows) -> HuntedCase:
        """Return the least module that shows the same."""
        return smaller_module(case, shows)

    def words(self, case: HuntedCase) -> str:
        """Return the operations of the module."""
        return opcodes_of(case)


def drawn_text(seed: int, random: Random, counts: CellCounts) -> str:
    """Return a valid module; raises LowtideError where what was drawn is none."""
    text = draw_module(seed, counts.wish(random)).text
    verify(parse_hlo(text))
    return text


def without_schedule(text: str) -> str:
    """Return a module's text without its schedule and its aliases."""
    head, line, rest = text.partition("\n")
    return re.split(r", (?:is_scheduled|input_output_alias)=", head)[0] + line + rest
