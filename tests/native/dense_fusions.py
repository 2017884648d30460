"""Random fusions of arrays of one size, so that one value is read again and again, and elsewhere.

Sums, products and windows stand among moves of elements: what a kernel has at hand for one element
must not be taken for what another one needs. Results are several, layouts of the two kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

SIZE: Final = 8
MATRIX, ROW, SCALAR = (SIZE, SIZE), (SIZE,), ()

Sizes = tuple[int, ...]

_TEXT: Final = """HloModule dense
add {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT c = {type}[] add(a, b)
}}
maximum {{
  a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT c = {type}[] maximum(a, b)
}}
fused {{
  a = {type}[8,8]{layout} parameter(0)
  b = {type}[8,8] parameter(1)
  z = {type}[] parameter(2)
  i = s32[] parameter(3)
  {body}
}}
ENTRY e {{
  given = {type}[8,8] parameter(0)
  a = {type}[8,8]{layout} negate(given)
  b = {type}[8,8] parameter(1)
  z = {type}[] parameter(2)
  i = s32[] parameter(3)
  ROOT r = {result} fusion(a, b, z, i), kind={kind}, calls=fused
}}
"""


def dense_fusion(seed: int, type_: str) -> str:
    """Return a module whose entry is one fusion of two to eight steps, as text."""
    draft = _Draft(Random(seed), type_)
    for _ in range(draft.random.randrange(2, 9)):
        draft.step()
    return draft.text()


class _Draft:
    """Lines of a fusion, and the sizes of the values that they name."""

    def __init__(self, random: Random, type_: str) -> None:
        self.random = random
        self.type = type_
        self.lines: list[str] = []
        self.sizes: dict[str, Sizes] = {"a": MATRIX, "b": MATRIX, "z": SCALAR}
        self.types = dict.fromkeys("ab", f"{type_}[8,8]") | {"z": f"{type_}[]"}

    def step(self) -> None:
        """Add one operation, or the two or three that make up a move."""
        self.random.choice(_STEPS)(self)

    def text(self) -> str:
        """Return the module; what was made last is the first of its results."""
        made = [x for x in self.sizes if x not in "abz"] or ["a"]
        results = [made[-1]]
        while self.random.random() < 0.45:
            results.append(self.random.choice(made))
        types = [self.types[x] for x in results]
        result = f"({', '.join(types)})"
        self.lines.append(f"ROOT results = {result} tuple({', '.join(results)})")
        return _TEXT.format(
            type=self.type,
            layout=self.random.choice(_LAYOUTS),
            body="\n  ".join(self.lines),
            result=result,
            kind=self.random.choice(("kLoop", "kInput", "kOutput", "kCustom")),
        )

    def any(self, sizes: Sizes) -> str:
        """A value of these sizes, mostly one of those that were made last."""
        known = [x for x, found in self.sizes.items() if found == sizes]
        if not known:
            source = self.matrix()
            return self.add(ROW, f"reduce({source}, z), dimensions={{1}}, to_apply=add")
        return self.random.choice(known[-4:] if self.random.random() < 0.7 else known)

    def matrix(self) -> str:
        """A matrix."""
        return self.any(MATRIX)

    def add(self, sizes: Sizes, operation: str, type_: str = "") -> str:
        """Add an operation; return the name of what it makes, a number of the type if not said."""
        name = f"v{len(self.lines)}"
        is_turned = len(sizes) == 2 and self.random.random() < 0.2
        layout = "{0,1}" if is_turned else ""
        self.types[name] = f"{type_ or self.type}[{','.join(map(str, sizes))}]{layout}"
        self.lines.append(f"{name} = {self.types[name]} {operation}")
        if not type_:
            self.sizes[name] = sizes
        return name


_LAYOUTS: Final = ("{1,0}", "{0,1}")

# -- steps -----------------------------------------------------------------------------------------


def _binary(d: _Draft) -> None:
    opcode = d.random.choice(("add", "subtract", "maximum", "multiply"))
    d.add(MATRIX, f"{opcode}({d.matrix()}, {d.matrix()})")


def _select(d: _Draft) -> None:
    direction = d.random.choice(("LT", "GE", "EQ"))
    chosen = d.add(MATRIX, f"compare({d.matrix()}, {d.matrix()}), direction={direction}", "pred")
    d.add(MATRIX, f"select({chosen}, {d.matrix()}, {d.matrix()})")


def _clamp(d: _Draft) -> None:
    d.add(MATRIX, f"clamp({d.any(SCALAR)}, {d.matrix()}, {d.any(SCALAR)})")


def _dot(d: _Draft) -> None:
    left, right = d.random.randrange(2), d.random.randrange(2)
    sides = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    d.add(MATRIX, f"dot({d.matrix()}, {d.matrix()}), {sides}")


def _dot_with_row(d: _Draft) -> None:
    sides = f"lhs_contracting_dims={{{d.random.randrange(2)}}}, rhs_contracting_dims={{0}}"
    d.add(ROW, f"dot({d.matrix()}, {d.any(ROW)}), {sides}")


def _convolution(d: _Draft) -> None:
    image = d.add((1, SIZE, SIZE), f"reshape({d.matrix()})")
    weights = d.add((1, SIZE, SIZE), f"reshape({d.matrix()})")
    how = "window={size=1}, dim_labels=b0f_0io->b0f"
    d.add(MATRIX, f"reshape({d.add((1, SIZE, SIZE), f'convolution({image}, {weights}), {how}')})")


def _reduce(d: _Draft) -> None:
    how = f"dimensions={{{d.random.randrange(2)}}}, to_apply={d.random.choice(_REDUCERS)}"
    d.add(ROW, f"reduce({d.matrix()}, {d.any(SCALAR)}), {how}")


def _reduce_row(d: _Draft) -> None:
    how = f"dimensions={{0}}, to_apply={d.random.choice(_REDUCERS)}"
    d.add(SCALAR, f"reduce({d.any(ROW)}, {d.any(SCALAR)}), {how}")


_REDUCERS: Final = ("add", "maximum")


def _window(d: _Draft) -> None:
    window = d.random.choice(("3x1 pad=1_1x0_0", "1x3 pad=0_0x1_1", "3x3 pad=1_1x1_1"))
    how = f"window={{size={window}}}, to_apply={d.random.choice(_REDUCERS)}"
    d.add(MATRIX, f"reduce-window({d.matrix()}, {d.any(SCALAR)}), {how}")


def _transpose(d: _Draft) -> None:
    d.add(MATRIX, f"transpose({d.matrix()}), dimensions={{1,0}}")


def _reverse(d: _Draft) -> None:
    d.add(MATRIX, f"reverse({d.matrix()}), dimensions={{{d.random.randrange(2)}}}")


def _broadcast(d: _Draft) -> None:
    dimensions = d.random.choice(("0", "1", ""))
    source = d.any(ROW if dimensions else SCALAR)
    d.add(MATRIX, f"broadcast({source}), dimensions={{{dimensions}}}")


def _shift(d: _Draft) -> None:
    """A slice that lacks some rows or columns, padded on either side."""
    axis, lost = d.random.randrange(2), d.random.randrange(1, 4)
    before = d.random.randrange(lost + 1)
    sizes, slices, padding = [SIZE, SIZE], [f"[0:{SIZE}]"] * 2, ["0_0", "0_0"]
    sizes[axis], slices[axis] = SIZE - lost, f"[{lost}:{SIZE}]"
    padding[axis] = f"{before}_{lost - before}"
    part = d.add((sizes[0], sizes[1]), f"slice({d.matrix()}), slice={{{','.join(slices)}}}")
    d.add(MATRIX, f"pad({part}, {d.any(SCALAR)}), padding={'x'.join(padding)}")


def _element(d: _Draft) -> None:
    row, column = d.random.randrange(SIZE), d.random.randrange(SIZE)
    slices = f"slice={{[{row}:{row + 1}],[{column}:{column + 1}]}}"
    d.add(SCALAR, f"reshape({d.add((1, 1), f'slice({d.matrix()}), {slices}')})")


def _update(d: _Draft) -> None:
    height = d.random.randrange(1, SIZE + 1)
    sizes = f"dynamic_slice_sizes={{{height},{SIZE}}}"
    part = d.add((height, SIZE), f"dynamic-slice({d.matrix()}, i, i), {sizes}")
    d.add(MATRIX, f"dynamic-update-slice({d.matrix()}, {part}, i, i)")


def _reshape(d: _Draft) -> None:
    flat = d.add((SIZE * SIZE,), f"reshape({d.matrix()})")
    d.add(MATRIX, f"reshape({flat})")


def _reordered(d: _Draft) -> None:
    wide = d.add((4, 16), f"reshape({d.matrix()})")
    tall = d.add((16, 4), f"transpose({wide}), dimensions={{1,0}}")
    d.add(MATRIX, f"reshape({tall})")


def _concatenate(d: _Draft) -> None:
    row = d.add((1, SIZE), f"reshape({d.any(ROW)})")
    rest = d.add((SIZE - 1, SIZE), f"slice({d.matrix()}), slice={{[1:{SIZE}],[0:{SIZE}]}}")
    first, second = d.random.sample((row, rest), 2)
    d.add(MATRIX, f"concatenate({first}, {second}), dimensions={{0}}")


def _copy(d: _Draft) -> None:
    d.add(MATRIX, f"copy({d.matrix()})")


_STEPS: Final[tuple[Callable[[_Draft], None], ...]] = (
    *(_binary, _binary, _binary, _select, _clamp, _dot, _dot_with_row, _convolution, _reduce),
    *(_reduce_row, _window, _transpose, _reverse, _broadcast, _broadcast, _shift, _element),
    *(_update, _reshape, _reordered, _concatenate, _copy),
)
