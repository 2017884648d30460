"""Layout passes, from HLO to HLO, and on values in any layout."""

import random

import pytest
from tests.random_modules import MEMORY, Recipe, random_module
from tests.transforms.layout import single_passes, whole_stage
from tests.transforms.layout.control_flow import PROGRAMS
from tests.transforms.simplify.cases.notation import body, outside

from lowtide.compiler import plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Layout, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.printer import fingerprint
from lowtide.passes.instrumentation import Checking
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.testing.check_pass import assert_same_values
from lowtide.testing.check_rule import module_of
from lowtide.transforms.layout.forms import rule_of
from lowtide.transforms.layout.orders import is_movable
from lowtide.transforms.layout.places import computation_runs
from lowtide.transforms.layout.problem import LayoutProblem, total
from lowtide.verifier import verify

STAGE = "layout-assignment,copy-sinking,reshape-decomposer,layout-normalization,dce"
CASES = [
    *[(STAGE, *case) for case in (*whole_stage.CONVOLUTIONS, *whole_stage.TRANSPOSES)],
    *[("copy-sinking", *case) for case in single_passes.COPY_SINKING],
    *[("reshape-decomposer", *case) for case in single_passes.RESHAPE_DECOMPOSER],
    *[("dot-dimension-splitter", *case) for case in single_passes.DOT_DIMENSIONS],
    *[("layout-assignment", *case) for case in single_passes.ASSIGNMENT],
]


def check(module: Module, names: str, *, settles: bool = True) -> None:
    """Run passes; they have to keep values, and the last to change nothing the second time."""
    before = clone_module(module)
    run_pipeline(module, parse_passes(names), [Checking(verify)])
    assert_same_values(before, module, seeds=1)
    if not settles:
        return
    text = str(module)
    assert [step.run(module) for step in parse_passes(names)][-1] == 0
    assert str(module) == text


@pytest.mark.parametrize(
    ("names", "name", "before", "after"), CASES, ids=[case[1] for case in CASES]
)
def test_passes(names: str, name: str, before: str, after: str) -> None:
    module = module_of(body(before), outside(before))
    check(module, names)
    expected = module_of(body(after), outside(after))
    assert fingerprint(module) == fingerprint(expected), f"got\n{module}"


@pytest.mark.parametrize(("name", "text", "parts"), PROGRAMS, ids=[x[0] for x in PROGRAMS])
def test_control_flow(name: str, text: str, parts: tuple[str, ...]) -> None:
    module = parse_hlo(text)
    check(module, STAGE)
    for part in parts:
        assert part in str(module)
    transposes = [
        x
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode in (Opcode.TRANSPOSE, Opcode.COPY)
    ]
    assert transposes == []


def shuffle_layouts(module: Module, seed: int) -> None:
    """Give some values random layouts, and read some through copies to random layouts."""
    chance = random.Random(seed)
    for computation in computation_runs(module):
        for x in list(computation.instructions.values()):
            if rule_of(x) is None or not is_movable(x.shape) or x.is_root:
                continue
            if all(rule_of(user) is not None for user in x.users) and chance.random() < 0.4:
                x.set_shape(x.shape.with_layout(random_layout(x.shape.rank, chance)))
            for number, y in enumerate(x.operands):
                if is_movable(y.shape) and chance.random() < 0.2:
                    shape = y.shape.with_layout(random_layout(y.shape.rank, chance))
                    x.replace_operand(number, computation.add(Opcode.COPY, shape, (y,)))


def random_layout(rank: int, chance: random.Random) -> Layout:
    order = list(range(rank))
    chance.shuffle(order)
    return Layout(tuple(order))


@pytest.mark.parametrize(
    "names", ["layout-normalization", "copy-sinking", "reshape-decomposer", STAGE]
)
def test_values_in_any_layout(names: str) -> None:
    for seed in range(40):
        module = random_module(seed, (Recipe(), MEMORY)[seed % 2])
        module.schedule = None
        shuffle_layouts(module, seed)
        check(module, names)


def test_assignment_moves_no_more_bytes() -> None:
    fewer = 0
    for seed in range(40):
        module = random_module(seed, (Recipe(), MEMORY)[seed % 2])
        module.schedule = None
        shuffle_layouts(module, seed)
        before = total(LayoutProblem(module).units)
        check(module, "layout-assignment", settles=False)  # A search starts from what there is.
        after = total(LayoutProblem(module).units)
        assert after <= before
        fewer += after < before
    assert fewer > 10


def test_long_chains_are_no_problem() -> None:
    lines = ["x: f32[4,8]", "v0 = f32[8,4] transpose(x), dimensions={1,0}"]
    lines += [f"v{i + 1} = f32[8,4] negate(v{i})" for i in range(5_000)]
    lines += ["y = f32[4,8] transpose(v5000), dimensions={1,0}"]
    module = module_of(body("; ".join(lines)))
    run_pipeline(module, parse_passes(STAGE))
    assert {x.opcode for x in module.entry.instructions.values()} == {
        Opcode.PARAMETER,
        Opcode.NEGATE,
    }


BRANCHES = """HloModule m

halves {
  x = s8[1,2,4]{1,0,2} parameter(0)
  c = s8[] constant(2)
  w = s8[1,2,4]{2,1,0} broadcast(c), dimensions={}
  ROOT h = s8[1,2,4]{1,2,0} divide(x, w)
}

yes {
  x = s8[1,2,4]{1,0,2} parameter(0)
  ROOT r = s8[1,2,4]{1,2,0} fusion(x), kind=kLoop, calls=halves
}

no {
  x = s8[1,2,4]{1,0,2} parameter(0)
  ROOT n = s8[1,2,4]{1,0,2} negate(x)
}

ENTRY e {
  p = pred[] parameter(0)
  x = s8[1,2,4]{1,0,2} parameter(1)
  ROOT c = s8[1,2,4]{1,0,2} conditional(p, x, x), true_computation=yes, false_computation=no
}
"""


def test_roots_of_branches_that_stay_as_they_are_become_what_the_others_are() -> None:
    """Layouts that differ in a dimension of size 1 only are one; a fusion keeps its own."""
    module = parse_hlo(BRANCHES.replace("{1,2,0}", "{1,0,2}"))
    check(module, "layout-normalization", settles=False)
    for text in (BRANCHES, BRANCHES.replace("{1,2,0}", "{1,0,2}")):
        module = parse_hlo(text)
        planned = plan(module).module
        assert_same_values(module, planned, seeds=3)
