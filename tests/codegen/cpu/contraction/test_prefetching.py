"""What packing asks for ahead of reading it: also where an operand is computed from arrays."""

import pytest
from tests.codegen.cpu.contraction.products import check, plan_of

from lowtide import parse_hlo
from lowtide.codegen.cpu.contraction.views import views_behind
from lowtide.ir import Instruction
from lowtide.llvm.target import host_target, restricted

AVX2 = restricted(host_target(), "avx2")


def rounded_weights(m: int, k: int, n: int, *, is_turned: bool = False) -> str:
    """A product in bf16 of weights that are sums of two arrays, as one kernel.

    With `is_turned` the columns of the weights lie along k.
    """
    lies = f"f32[{n},{k}]" if is_turned else f"f32[{k},{n}]"
    order = "{1,0}" if is_turned else "{0,1}"
    return f"""HloModule p
fused {{
  x = bf16[{m},{k}] parameter(0)
  y = {lies} parameter(1)
  z = {lies} parameter(2)
  u = f32[{k},{n}] transpose(y), dimensions={order}
  v = f32[{k},{n}] transpose(z), dimensions={order}
  s = f32[{k},{n}] add(u, v)
  w = bf16[{k},{n}] convert(s)
  ROOT d = bf16[{m},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
ENTRY e {{
  a = bf16[{m},{k}] parameter(0)
  b = {lies} parameter(1)
  c = {lies} parameter(2)
  ROOT r = bf16[{m},{n}] fusion(a, b, c), kind=kOutput, calls=fused
}}
"""


def operand(text: str, name: str) -> tuple[Instruction, Instruction]:
    """An instruction of the fusion of a module, and the fusion."""
    kernel = parse_hlo(text).entry.root
    body = kernel.called_computations[0]
    return next(x for x in body.instructions.values() if x.name == name), kernel


def test_arrays_behind_a_computed_operand_lie_as_they_do() -> None:
    weights, kernel = operand(rounded_weights(8, 40, 24), "w")
    found = views_behind(weights, kernel)
    assert [x.source.name for x in found] == ["y", "z"]
    for view in found:
        assert (view.single((0,)), view.single((1,)), view.offset) == (24, 1, 0)


def test_what_only_moves_elements_has_one_array_behind_it() -> None:
    rows, kernel = operand(rounded_weights(8, 40, 24), "x")
    (view,) = views_behind(rows, kernel)
    assert view.source is rows


def test_an_operand_that_is_not_computed_by_elements_has_no_arrays_behind_it() -> None:
    product, kernel = operand(rounded_weights(8, 40, 24), "d")
    assert views_behind(product, kernel) == ()


def test_an_array_that_is_read_twice_is_asked_for_once() -> None:
    text = rounded_weights(8, 40, 24).replace("add(u, v)", "add(u, u)")
    weights, kernel = operand(text, "w")
    assert [x.source.name for x in views_behind(weights, kernel)] == ["y"]


@pytest.mark.parametrize("is_turned", [False, True])
def test_packing_asks_for_operands_of_a_dot_that_are_no_parameters(is_turned: bool) -> None:
    """They are arrays of other kernels, which lie as they are."""
    side, order = ("f32[520,600]", 0) if not is_turned else ("f32[600,520]", 1)
    text = f"""HloModule p
ENTRY e {{
  a = f32[130,520] parameter(0)
  b = {side} parameter(1)
  x = f32[130,520] negate(a)
  y = {side} negate(b)
  ROOT d = f32[130,600] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{order}}}
}}
"""
    assert _asked(text) > 0


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("sizes", [(130, 520, 600), (67, 301, 205)])
def test_packing_asks_for_all_that_an_operand_is_computed_from(
    sizes: tuple[int, int, int], is_turned: bool
) -> None:
    """Both arrays, whichever way they lie; the results are those of the evaluator."""
    text = rounded_weights(*sizes, is_turned=is_turned)
    check(text, target=AVX2, factor=4)
    single = text.replace("add(u, v)", "add(u, u)")
    asked, fewer = (_asked(x) for x in (text, single))
    assert asked > fewer > 0


def _asked(text: str) -> int:
    """How many lines of code ask for memory where columns are packed."""
    plan = plan_of(parse_hlo(text), AVX2)
    assert plan is not None
    packing = [x for x in plan.emit().functions if x.name.startswith("pack")]
    assert packing
    return sum([x.text().count("call void @llvm.prefetch") for x in packing])
