"""Nothing grows without bound: passes settle, no two undo each other, code does not multiply."""

from collections.abc import Iterator
from functools import cache
from itertools import combinations

import pytest
from tests.generated.layers import layered_module
from tests.random_modules import MEMORY, Recipe, random_module

import lowtide
from lowtide.compiler.stages import STAGES, pipeline
from lowtide.ir import Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import fused_computations
from lowtide.passes import Fixpoint, Pass, Step, run_pipeline
from lowtide.passes.instrumentation import Observing
from lowtide.passes.registry import passes

RECIPES = (Recipe(), MEMORY)
FEW, MANY = range(40), range(200)
FIXPOINTS = [x for x in pipeline(STAGES[-1]) if isinstance(x, Fixpoint)]


@cache
def drawn(seed: int) -> Module:
    module = random_module(seed, RECIPES[seed % len(RECIPES)])
    module.schedule = None
    return module


def repeated(steps: tuple[Step, ...]) -> Iterator[Pass]:
    for step in steps:
        if isinstance(step, Pass):
            yield step
        else:
            yield from repeated(step.steps)


REPEATED = sorted({x for step in FIXPOINTS for x in repeated(step.steps)}, key=lambda x: x.name)


class Rounds(Observing):
    """Counts how often each pass ran."""

    def __init__(self) -> None:
        self.runs: dict[Pass, int] = {}

    def ran(self, step: Pass, module: Module, changes: int) -> None:
        self.runs[step] = self.runs.get(step, 0) + 1


def check_settles(step: Step, seed: int) -> None:
    """Assert that a second run changes nothing, and that the first did not end at the bound."""
    module = clone_module(drawn(seed))
    rounds = Rounds()
    run_pipeline(module, [step], [rounds])
    if isinstance(step, Fixpoint):
        assert max(rounds.runs.values()) < step.most_rounds
    text = str(module)
    assert run_pipeline(module, [step]) == 0
    assert str(module) == text


@pytest.mark.parametrize("step", REPEATED, ids=lambda step: step.name)
def test_passes_that_are_repeated_settle(step: Pass) -> None:
    for seed in FEW:
        check_settles(step, seed)


@pytest.mark.slow
@pytest.mark.parametrize("step", REPEATED, ids=lambda step: step.name)
def test_passes_that_are_repeated_settle_on_many(step: Pass) -> None:
    for seed in MANY:
        check_settles(step, seed)


@pytest.mark.parametrize("step", FIXPOINTS[:1], ids=lambda step: step.name)
def test_fixpoints_settle(step: Fixpoint) -> None:
    for seed in MANY:
        check_settles(step, seed)


def test_no_two_passes_undo_each_other() -> None:
    for number, pair in enumerate(combinations(REPEATED, 2)):
        for seed in range(number % 40, len(MANY), 40):
            check_settles(Fixpoint("pair", pair), seed)


def simplifying() -> list[Pass]:
    """Return the passes that are neither of layouts nor of fusion: those are not repeated."""
    where = {x: x.function.__module__ for x in passes().values()}
    return [x for x, name in where.items() if ".transforms." in name and ".layout." not in name]


@pytest.mark.slow
def test_no_two_of_all_simplifying_passes_undo_each_other() -> None:
    for number, pair in enumerate(combinations(simplifying(), 2)):
        for seed in range(number % 40, len(MANY), 40):
            module = clone_module(drawn(seed))
            rounds = Rounds()
            fixpoint = Fixpoint("pair", pair)
            run_pipeline(module, [fixpoint], [rounds])
            assert max(rounds.runs.values()) < fixpoint.most_rounds, [x.name for x in pair]


def test_a_fixpoint_of_passes_that_undo_each_other_ends() -> None:
    def exchange(module: Module, old: Opcode, new: Opcode) -> int:
        found = [x for x in module.entry.instructions.values() if x.opcode is old]
        for x in found:
            made = module.entry.add(new, x.shape, x.operands)
            x.replace_all_uses_with(made)
            module.entry.remove(x)
        return len(found)

    there = Pass("there", lambda module: exchange(module, Opcode.SINE, Opcode.COSINE), "", "", "")
    back = Pass("back", lambda module: exchange(module, Opcode.COSINE, Opcode.SINE), "", "", "")
    text = "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] sine(x)\n}\n"
    rounds = Rounds()
    run_pipeline(lowtide.parse_hlo(text), [Fixpoint("pair", (there, back), 7)], [rounds])
    assert rounds.runs == {there: 7, back: 7}


# -- code size ---------------------------------------------------------------------------------

SMALL = 8
"""Instructions that a module may gain whatever its size, e.g. for a gather written out."""


def code_size(module: Module) -> int:
    """Return the number of instructions, also in fusions, but for the parameters of fusions."""
    inside = [x for c in fused_computations(module) for x in c.instructions.values()]
    return module.instruction_count - len([x for x in inside if x.opcode is Opcode.PARAMETER])


@pytest.mark.parametrize("stage", ["simplified", "fused"])
def test_code_at_most_doubles(stage: str) -> None:
    for seed in MANY:
        module = clone_module(drawn(seed))
        run_pipeline(module, pipeline(stage))
        assert code_size(module) <= 2 * drawn(seed).instruction_count + SMALL


@pytest.mark.parametrize("calls", [False, True])
def test_layers_at_most_double(calls: bool) -> None:
    module = layered_module(2_000, calls=calls)
    count = module.instruction_count
    assert abs(count - 2_000) < 500
    run_pipeline(module, pipeline("simplified"))
    assert module.instruction_count <= count
    run_pipeline(module, pipeline("fused"))
    assert code_size(module) <= 2 * count
