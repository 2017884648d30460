"""Plans of random compilations beside the bound: of small modules, loops, and an example."""

from pathlib import Path
from random import Random

import pytest
from tests.least_memory.drawing import drawn_module
from tests.least_memory.exhaustive import Search
from tests.least_memory.plans import RandomPlans, simulated
from tests.least_memory.programs import branch_program, loop_program

from lowtide.compiler.compilation_bound import normal_forms
from lowtide.frontend.files import read
from lowtide.frontend.hlo_text.parser import parse_hlo
from lowtide.least_memory import least_memory

EXAMPLES = Path(__file__).parents[2] / "examples"


def lowest(module, count, seed=0):
    """The least that plans need: a half of those drawn, a half of those a step further."""
    plans, random = RandomPlans(module), Random(seed)
    walks = [plans.walk(random) for _ in range(count // 2)]
    return min([x for walk in walks for x in walk.plans_in_turn(2)])


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


@pytest.mark.parametrize("seed", range(12))
def test_steps_are_evaluated_as_plans_are_kernel_by_kernel(seed) -> None:
    """Random modules, a loop and branches: after each step of a walk, and after it is undone."""
    if seed < 10:
        module = drawn_module(seed, 6 + 3 * seed)
    else:
        module = parse_hlo((loop_program, branch_program)[seed - 10]())
    plans = RandomPlans(module)
    for number in range(4):
        walk = plans.walk(Random(number))
        found = set()
        for needs in walk.plans_in_turn(40):
            found.add(needs)
            for key, part in plans.parts.items():
                own = walk.walks[key]
                assert simulated(own, walk.inner(part)) == own.peak(walk.inner(part))
        assert walk.nbytes in found


def test_a_walk_goes_down() -> None:
    """From what is drawn, a few hundred steps find much less."""
    (module,) = normal_forms(read(str(EXAMPLES / "mnist_cnn.hlo.xz")))
    steps = [*RandomPlans(module).walk(Random(0)).plans_in_turn(400)]
    assert least_memory(module).nbytes <= min(steps) < 0.9 * steps[0]


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
