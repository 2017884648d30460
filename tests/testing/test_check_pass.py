import pytest
from tests.random_modules import random_module

from lowtide.ir import InvalidModuleError, Module, Opcode
from lowtide.ir.literal import DTYPES
from lowtide.testing.check_pass import check_pass, seeded_arguments
from lowtide.testing.filecheck import FileCheckError

TEXT = """
HloModule m
// CHECK-LABEL: ENTRY %main
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  n = f32[8] negate(y)
  // CHECK-NOT: negate
  // CHECK: ROOT {{.*}} = f32[8]{0} subtract(%x, %y)
  ROOT sum = f32[8] add(x, n)
}
"""


def add_of_negate(module: Module) -> bool:
    """x + (-y) => x - y"""
    entry = module.entry
    total = entry.root
    if total.opcode is not Opcode.ADD or total.operands[1].opcode is not Opcode.NEGATE:
        return False
    lhs, rhs = total.operands
    new = entry.add(Opcode.SUBTRACT, total.shape, (lhs, rhs.operands[0]), name="sum")
    total.replace_all_uses_with(new)
    entry.remove(total)
    entry.remove(rhs)
    return True


class AsPass:
    def __init__(self, function):
        self.function = function

    def run(self, module):
        return self.function(module)


def swapped(module):
    add_of_negate(module)
    root = module.entry.root
    root.set_operands(root.operands[::-1])
    return True


def dishonest(module):
    add_of_negate(module)
    return False


def invalid(module):
    module.entry.root.set_operands(module.entry.root.operands[:1])
    return True


@pytest.mark.parametrize("transform", [add_of_negate, AsPass(add_of_negate)])
def test_a_pass_that_does_what_it_says(transform):
    module = check_pass(transform, TEXT, evaluate=True)
    assert module.entry.root.opcode is Opcode.SUBTRACT


def test_a_pass_that_does_not_fire():
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] abs(x) }"
    check_pass(add_of_negate, text, changed=False)
    with pytest.raises(AssertionError, match="the pass returned False, not True"):
        check_pass(add_of_negate, text)


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (lambda module: False, AssertionError, "returned False, not True"),
        (lambda module: True, AssertionError, "returned True, but the text is equal"),
        (dishonest, AssertionError, "returned False, but the text differs"),
        (invalid, InvalidModuleError, "add takes 2 operands, not 1"),
        (swapped, FileCheckError, "CHECK: ROOT"),
    ],
)
def test_passes_that_fail(transform, error, message):
    with pytest.raises(error, match=message):
        check_pass(transform, TEXT)


def test_a_pass_that_changes_values():
    text = TEXT.replace("subtract(%x, %y)", "subtract(%y, %x)")
    check_pass(swapped, text)
    with pytest.raises(AssertionError, match="result: 7 elements differ; worst at"):
        check_pass(swapped, text, evaluate=True)


def test_the_input_must_be_valid():
    with pytest.raises(InvalidModuleError):
        check_pass(add_of_negate, TEXT.replace("f32[8] add(x, n)", "f32[9] add(x, n)"))


def test_seeded_arguments_depend_on_shapes_and_seed_only():
    one, other = random_module(3), random_module(3)
    first, second = seeded_arguments(one, 1), seeded_arguments(other, 1)
    assert [x.tobytes() for x in first] == [x.tobytes() for x in second]
    assert [x.tobytes() for x in first] != [x.tobytes() for x in seeded_arguments(one, 2)]
    leaves = [leaf for p in one.entry.parameters for _, leaf in p.shape.leaves()]
    assert [(x.shape, x.dtype) for x in first] == [
        (leaf.dimensions, DTYPES[leaf.element_type]) for leaf in leaves
    ]
