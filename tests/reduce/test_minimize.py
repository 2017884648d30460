"""A module that shows a fault becomes a few lines that show it."""

import pytest
from tests.random_modules import MEMORY, random_module

import lowtide
from lowtide.ir import Module, Opcode
from lowtide.passes.dead_code import remove_dead_code
from lowtide.reduce.minimize import as_test, minimize


def multiplies(module: Module) -> bool:
    """The "fault": a product is computed somewhere."""
    return any(
        x.opcode is Opcode.MULTIPLY
        for computation in module.computations.values()
        for x in computation.instructions.values()
    )


def without_dead_code(seed: int) -> Module:
    module = random_module(seed, MEMORY)
    module.schedule = None
    remove_dead_code(module)
    return module


def test_what_does_not_matter_goes() -> None:
    modules = [module for module in map(without_dead_code, range(40)) if multiplies(module)]
    assert modules
    for module in modules:
        small = minimize(module, multiplies)
        lowtide.verify(small)
        assert multiplies(small)
        assert len(small.entry.instructions) <= 12


def test_a_module_without_the_fault_is_refused() -> None:
    module = lowtide.parse_hlo("HloModule m\nENTRY main {\n ROOT x = f32[2] parameter(0)\n}")
    with pytest.raises(ValueError, match="does not show"):
        minimize(module, multiplies)


def test_the_rest_is_printed_as_a_test() -> None:
    module = lowtide.parse_hlo("HloModule m\nENTRY main {\n ROOT x = f32[2] parameter(0)\n}")
    source = as_test(module, "wrong_answer")
    compile(source, "<test>", "exec")
    assert "def test_wrong_answer" in source
    assert "f32[2]{0} parameter(0)" in source
