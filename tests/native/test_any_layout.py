"""Operations of scheduled modules, which keep their layouts, natively and by the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native.comparing import compiled
from tests.native.layout_cases import CASES, Case, module_text
from tests.native.zero_cases import EMPTY

from lowtide.checking.tolerances import assert_values_close
from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.testing.check_pass import seeded_arguments
from lowtide.verifier import verify

FACTOR = 4.0
"""Long sums of narrow types are added up in another order."""


@pytest.mark.parametrize("name", CASES)
def test_any_layout(name: str) -> None:
    for seed in range(8):
        check(CASES[name], seed, ("native", "avx2")[seed // 4])


@pytest.mark.parametrize("name", EMPTY)
def test_no_elements(name: str) -> None:
    for seed in range(2):
        check(EMPTY[name], seed, "native")


def check(case: Case, seed: int, target: str) -> None:
    """Compare what a module of the case computes; odd seeds put it into a fusion."""
    text = module_text(case, seed, is_fused=seed % 2 == 1)
    module = parse_hlo(text)
    verify(module)
    arguments = seeded_arguments(module, seed)
    with np.errstate(all="ignore"):
        expected = evaluate(module, arguments)
    got = compiled(text, target=target)(*arguments)
    assert_values_close(got, expected, module.entry.root.shape, factor=FACTOR)
