"""Plans of random compilations beside the bound: of small modules, loops, and an example."""

from pathlib import Path
from random import Random

import pytest
from tests.least_memory.drawing import drawn_module
from tests.least_memory.exhaustive import Search
from tests.least_memory.plans import RandomPlans
from tests.least_memory.programs import branch_program, loop_program

from lowtide.compiler.compilation_bound import normal_forms
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.least_memory import least_memory

EXAMPLES = Path(__file__).parents[2] / "examples"


def lowest(module, count, seed=0):
    plans, random = RandomPlans(module), Random(seed)
    return min([plans.nbytes(random) for _ in range(count)])


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_plans_of_small_modules_are_between_the_least_and_more(seed) -> None:
    """None is below what exhaustive search finds, and many are as low."""
    met = 0
    for number in range(seed, seed + 20):
        module = drawn_module(number, 2 + number % 4)
        found, least = lowest(module, 40), Search(module.entry).least()
        assert least_memory(module).nbytes <= least <= found
        met += found == least
    assert met >= 10


@pytest.mark.parametrize("text", [loop_program(), loop_program("x"), branch_program()])
def test_plans_of_loops_and_branches(text) -> None:
    module = parse_hlo(text)
    found = lowest(module, 50)
    assert least_memory(module).nbytes <= found <= 1.5 * least_memory(module).nbytes


@pytest.mark.parametrize("name", ["mnist_cnn", "lstm", "llama_1b"])
def test_plans_of_examples_are_above_the_bound(name) -> None:
    (module,) = normal_forms(read(str(EXAMPLES / f"{name}.hlo.xz")))
    found = lowest(module, 30)
    assert least_memory(module).nbytes <= found <= 4 * least_memory(module).nbytes
