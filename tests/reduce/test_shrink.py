"""Large modules become small ones with the same structure, on which faults of passes show."""

import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.random_modules import Recipe, random_module
from tests.support import EXAMPLES

import lowtide
from lowtide.cli.main import main
from lowtide.evaluator import evaluate
from lowtide.ir import Instruction, Module, Opcode
from lowtide.passes import Pass
from lowtide.reduce.minimize import failing_test
from lowtide.reduce.shrink import shrink
from lowtide.reduce.shrink.arguments import likely_arguments
from lowtide.reduce.shrink.factors import Sizes
from lowtide.reduce.shrink.faults import Fault, find_fault

CASES = (
    (
        "reshapes",
        """
        x = f32[16>4,48>5,1024>24] parameter(0)
        heads = f32[16>4,48>5,8>4,128>6] reshape(x)
        turned = f32[16>4,8>4,48>5,128>6] transpose(heads), dimensions={0,2,1,3}
        ROOT rows = f32[128>16,6144>30] reshape(turned)
        """,
    ),
    (
        "reshapes without a common cut",
        """
        x = f32[20>8,21>9] parameter(0)
        ROOT y = f32[14>6,30>12] reshape(x)
        """,
    ),
    (
        "halves",
        """
        x = f32[64>5,128>10] parameter(0)
        low = f32[64>5,64>5] slice(x), slice={[0:64>5], [0:64>5]}
        high = f32[64>5,64>5] slice(x), slice={[0:64>5], [64>5:128>10]}
        ROOT y = f32[64>5,128>10] concatenate(high, low), dimensions={1}
        """,
    ),
    (
        "a sum and a difference",
        """
        x = f32[128>10] parameter(0)
        last = f32[1] slice(x), slice={[127>9:128>10]}
        rest = f32[127>9] slice(x), slice={[0:127>9]}
        even = f32[64>5] slice(x), slice={[0:128>10:2]}
        ends = f32[128>10] concatenate(even, even), dimensions={0}
        rolled = f32[128>10] concatenate(last, rest), dimensions={0}
        ROOT y = f32[128>10] add(ends, rolled)
        """,
    ),
    (
        "groups of channels that are joined",
        """
        x = f32[9>4,64>10] parameter(0)
        y = f32[9>4,128>15] parameter(1)
        joined = f32[9>4,192>25] concatenate(x, y), dimensions={1}
        groups = f32[9>4,32>5,6>5] reshape(joined)
        x_groups = f32[9>4,32>5,2] reshape(x)
        y_groups = f32[9>4,32>5,4>3] reshape(y)
        ROOT all = (f32[9>4,32>5,6>5], f32[9>4,32>5,2], f32[9>4,32>5,4>3]) \
            tuple(groups, x_groups, y_groups)
        """,
    ),
    (
        "windows",
        """
        image = f32[32>5,224>7,224>7,3] parameter(0)
        kernel = f32[7>3,7>3,3,64>5] parameter(1)
        ROOT y = f32[32>5,112>5,112>5,64>5] convolution(image, kernel), \
            window={size=7>3x7>3 stride=2x2 pad=3>2_3>2x3>2_3>2}, dim_labels=b01f_01io->b01f
        """,
    ),
    (
        "groups of features",
        """
        image = f32[32>5,56>5,56>5,144>6] parameter(0)
        kernel = f32[3,3,1,144>6] parameter(1)
        ROOT y = f32[32>5,56>5,56>5,144>6] convolution(image, kernel), \
            window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=144>6
        """,
    ),
    (
        "a window over all",
        """
        x = f32[1024>7] parameter(0)
        zero = f32[] constant(0)
        ROOT y = f32[1024>7] reduce-window(x, zero), \
            window={size=1024>7 pad=1023>6_0}, to_apply=add
        """,
    ),
    (
        "pads",
        """
        x = f32[100>5,50>5] parameter(0)
        zero = f32[] constant(0)
        ROOT y = f32[128>6,99>9] pad(x, zero), padding=0_28>1x0_0_1
        """,
    ),
    (
        "indices",
        """
        table = bf16[32000>9,512>7] parameter(0)
        words = s32[8>4,100>5,1] parameter(1)
        ROOT y = bf16[8>4,100>5,512>7] gather(table, words), offset_dims={2}, \
            collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, \
            slice_sizes={1,512>7}
        """,
    ),
    (
        "loops",
        """
        w = f32[64>5,256>6] parameter(0)
        x = f32[256>6] parameter(1)
        zero = s32[] constant(0)
        start = (s32[], f32[64>5,256>6], f32[256>6]) tuple(zero, w, x)
        ROOT end = (s32[], f32[64>5,256>6], f32[256>6]) while(start), condition=less, body=body
        """,
    ),
)
"""Entries; `64>5` is a 64 that becomes a 5."""

CALLED = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

less {
  c = (s32[], f32[64>5,256>6], f32[256>6]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(64>5)
  ROOT go = pred[] compare(i, n), direction=LT
}

body {
  c = (s32[], f32[64>5,256>6], f32[256>6]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  w = f32[64>5,256>6] get-tuple-element(c), index=1
  x = f32[256>6] get-tuple-element(c), index=2
  zero = s32[] constant(0)
  row = f32[1,256>6] dynamic-slice(w, i, zero), dynamic_slice_sizes={1,256>6}
  flat = f32[256>6] reshape(row)
  y = f32[256>6] add(x, flat)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[64>5,256>6], f32[256>6]) tuple(next, w, y)
}
"""


def with_size(text: str, number: int) -> Module:
    """Return the module with the sizes before (1) or after (2) the `>`."""
    return lowtide.parse_hlo(re.sub(r"(\d+)>(\d+)", rf"\{number}", text))


@pytest.mark.parametrize(("name", "body"), CASES, ids=[name for name, _ in CASES])
def test_sizes_that_depend_on_one_another_still_fit(name: str, body: str) -> None:
    called = CALLED if "body=" in body else CALLED[: CALLED.index("less {")]
    text = f"{called}\nENTRY main {{\n{body}\n}}"
    assert str(shrink(with_size(text, 1))) == str(with_size(text, 2))


def structure(module: Module) -> list[tuple[str, Opcode, list[str], list[str]]]:
    def row(x: Instruction) -> tuple[str, Opcode, list[str], list[str]]:
        operands = [operand.name for operand in x.operands]
        return x.name, x.opcode, operands, [c.name for c in x.called_computations]

    return [row(x) for c in module.computations.values() for x in c.instructions.values()]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.xz")), ids=lambda x: x.name)
def test_programs_keep_their_structure(path: Path) -> None:
    module = lowtide.read(path)
    small = shrink(module)
    assert structure(small) == structure(module)
    shapes = [x.shape for c in small.computations.values() for x in c.instructions.values()]
    largest = max([leaf.element_count for shape in shapes for _, leaf in shape.leaves()])
    assert largest < 1 << 18


def test_same_input_same_bytes() -> None:
    path = EXAMPLES / "lstm.hlo.xz"
    assert str(shrink(lowtide.read(path))) == str(shrink(lowtide.read(path)))


def test_most_results_are_finite() -> None:
    small = shrink(lowtide.read(EXAMPLES / "mnist_cnn.hlo.xz"))
    for leaf in evaluate(small, likely_arguments(small, 0)):
        assert np.isfinite(np.asarray(leaf)).all()


@pytest.mark.parametrize("seed", range(60))
def test_random_modules_stay_valid(seed: int) -> None:
    module = random_module(seed, Recipe(max_instructions=30, max_size=12))
    small = shrink(module)
    lowtide.verify(small)
    assert structure(small) == structure(module)


def test_equal_products_share_their_factors() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        sizes = Sizes()
        primes = random.choice([2, 3, 5, 7], 8).tolist()
        sides = []
        for _ in range(4):
            order = random.permutation(primes)
            cuts = sorted(random.choice(9, 3).tolist())
            parts = np.split(order, cuts)
            sides.append([sizes.new(prod(part.tolist())) for part in parts])
        for side in sides[1:]:
            sizes.equate(sides[0], side)
        expected = sorted(sizes.factors(sides[0]))
        for side in sides:
            assert sorted(sizes.factors(side)) == expected
            assert prod([sizes.size(x) for x in sizes.factors(side)]) == prod(primes)


# -- faults ------------------------------------------------------------------------------------

SUM = """HloModule m

ENTRY main {
  x = f32[512,300] parameter(0)
  y = f32[512,300] parameter(1)
  a = f32[512,300] add(x, y)
  b = f32[512,300] multiply(a, a)
  c = f32[512,300] subtract(b, x)
  ROOT d = f32[512,300] tanh(c)
}
"""


def swap(module: Module) -> int:
    """Take the operands of a subtraction for one another."""
    found = [x for x in module.entry.instructions.values() if x.opcode is Opcode.SUBTRACT]
    for x in found:
        x.set_operands(x.operands[::-1])
    return len(found)


def cut(module: Module) -> int:
    """Take an operand away."""
    module.entry.root.set_operands(())
    return 1


def crash(module: Module) -> int:
    """Raise what no pass should."""
    raise KeyError(module.name)


def nothing(module: Module) -> int:
    """Leave the module as it is."""
    return 0


@pytest.mark.parametrize(
    ("function", "fault"),
    [(swap, Fault.DIFFERS), (cut, Fault.INVALID), (crash, Fault.RAISES), (nothing, Fault.NONE)],
)
def test_faults_are_told_apart(function: Callable[[Module], int], fault: Fault) -> None:
    step = Pass("step", function, "", "", "")
    found, words = find_fault(shrink(lowtide.parse_hlo(SUM)), [step])
    assert found is fault
    assert bool(words) is (fault is not Fault.NONE)


def test_a_wrong_answer_becomes_a_short_test(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Pass("swap", swap, "", "", "")
    monkeypatch.setattr("lowtide.passes.registry.passes", lambda: {"swap": wrong})
    source = failing_test(shrink(lowtide.parse_hlo(SUM)), "swap")
    assert "subtract(" in source
    assert "tanh" not in source
    assert "multiply" not in source
    names: dict[str, Any] = {}
    exec(compile(source, "<test>", "exec"), names)
    with pytest.raises(AssertionError, match="differ"):
        names["test_differs"]()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "sum.hlo", tmp_path / "small.hlo"
    path.write_text(SUM)
    assert main(["reduce", str(path), "-o", str(out)]) == 0
    assert "f32[7,6]" in out.read_text()
    assert main(["reduce", str(path), "--failing", "dce,cse"]) == 1
    assert "compute the same" in capsys.readouterr().err
    assert main(["reduce", str(path), "--failing", "dcee"]) == 1
    assert "did you mean 'dce'" in capsys.readouterr().err
    assert main(["reduce", str(tmp_path / "none.hlo")]) == 1
    assert main(["reduce", str(path), "-o", str(tmp_path / "none" / "x")]) == 1
    assert "x: no such file or directory" in capsys.readouterr().err


def test_equal_sizes_are_named_alike_in_any_order():
    for pairs in ([(0, 1), (1, 2)], [(2, 1), (1, 0)], [(2, 0), (1, 2)]):
        sizes = Sizes()
        variables = [sizes.new(6) for _ in range(3)]
        for a, b in pairs:
            sizes.equate([a], [b])
        assert [sizes.factors([x]) for x in variables] == [(0,)] * 3
