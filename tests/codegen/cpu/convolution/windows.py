"""Windows, and the text of convolutions, for tests: drawn or written down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A window along one dimension."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    dilation: int = 1
    is_reversed: bool = False

    def places(self, size: int) -> int:
        """How many places it has along a dimension."""
        spread = (size - 1) * self.base + 1 if size else 0
        reach = (self.size - 1) * self.dilation + 1
        room = spread + self.low + self.high
        return (room - reach) // self.stride + 1 if room >= reach else 0


def window_text(windows: Sequence[Window]) -> str:
    """The attribute of an instruction."""

    def joined(values: Sequence[object]) -> str:
        return "x".join([str(x) for x in values])

    parts = [
        "size=" + joined([x.size for x in windows]),
        "stride=" + joined([x.stride for x in windows]),
        "pad=" + joined([f"{x.low}_{x.high}" for x in windows]),
        "lhs_dilate=" + joined([x.base for x in windows]),
        "rhs_dilate=" + joined([x.dilation for x in windows]),
        "rhs_reversal=" + joined([int(x.is_reversed) for x in windows]),
    ]
    return "window={" + " ".join(parts) + "}"


def array(type_: str, sizes: Sequence[int]) -> str:
    """A shape as text."""
    return f"{type_}[{','.join([str(x) for x in sizes])}]"


@dataclass(frozen=True)
class Convolution:
    """A convolution: per-group sizes, the images' sizes, windows, grouping, dimension labels."""

    batch: int
    features: int
    outputs: int
    sizes: tuple[int, ...]
    windows: tuple[Window, ...]
    feature_groups: int = 1
    batch_groups: int = 1
    types: tuple[str, str, str] = ("f32", "f32", "f32")
    orders: tuple[str, str, str] = ("", "", "")

    @property
    def labels(self) -> tuple[str, str, str]:
        """The labels of the dimensions of input, kernel and result."""
        places = "".join([str(i) for i in range(len(self.sizes))])
        usual = (f"b{places}f", f"{places}io", f"b{places}f")
        given = [x or y for x, y in zip(self.orders, usual, strict=True)]
        return given[0], given[1], given[2]

    @property
    def shapes(self) -> tuple[str, str, str]:
        """The shapes of input, kernel and result."""
        places = [w.places(n) for n, w in zip(self.sizes, self.windows, strict=True)]
        groups = self.feature_groups * self.batch_groups
        lhs = {"b": self.batch * self.batch_groups, "f": self.features * self.feature_groups}
        rhs = {"i": self.features, "o": self.outputs * groups}
        out = {"b": self.batch, "f": self.outputs * groups}
        for i, (n, w, p) in enumerate(zip(self.sizes, self.windows, places, strict=True)):
            lhs[str(i)], rhs[str(i)], out[str(i)] = n, w.size, p
        found = [
            array(type_, [sizes[x] for x in label])
            for type_, sizes, label in zip(self.types, (lhs, rhs, out), self.labels, strict=True)
        ]
        return found[0], found[1], found[2]

    @property
    def call(self) -> str:
        """The instruction with operands x and w."""
        labels = "{}_{}->{}".format(*self.labels)
        groups = ""
        if self.feature_groups > 1:
            groups += f", feature_group_count={self.feature_groups}"
        if self.batch_groups > 1:
            groups += f", batch_group_count={self.batch_groups}"
        window = window_text(self.windows)
        return f"{self.shapes[2]} convolution(x, w), {window}, dim_labels={labels}{groups}"

    @property
    def text(self) -> str:
        """A module of it."""
        return f"""HloModule one
ENTRY main {{
  x = {self.shapes[0]} parameter(0)
  w = {self.shapes[1]} parameter(1)
  ROOT c = {self.call}
}}"""


def drawn_window(draw: random.Random, size: int) -> Window:
    """A window for a dimension of some size."""
    return Window(
        draw.choice([1, 2, 3, 3, 5, size]),
        draw.choice([1, 1, 1, 2, 3]),
        draw.choice([0, 0, 1, 2, 4, -1, -2]),
        draw.choice([0, 0, 1, 2, 4, -1, -2]),
        draw.choice([1, 1, 1, 2, 3]),
        draw.choice([1, 1, 1, 2, 3]),
        draw.random() < 0.3,
    )


def drawn_convolution(seed: int) -> Convolution:
    """A convolution with something to add up."""
    draw = random.Random(seed)
    while True:
        rank = draw.choice([1, 2, 2, 3])
        sizes = tuple([draw.choice([1, 2, 3, 5, 8, 13]) for _ in range(rank)])
        windows = tuple([drawn_window(draw, x) for x in sizes])
        groups = draw.choice([1, 1, 2, 3, 8, 20])
        features = draw.choice([1, 2, 3, 8, 17, 33]) if groups == 1 else draw.choice([1, 1, 2, 3])
        outputs = draw.choice([1, 2, 3, 7, 16, 35, 64]) if groups == 1 else draw.choice([1, 2, 9])
        is_batch = draw.random() < 0.4
        orders = ["", "", ""]
        places = "".join([str(i) for i in range(rank)])
        for i, letters in enumerate(("bf", "io", "bf")):
            if draw.random() < 0.4:
                orders[i] = "".join(draw.sample(letters + places, rank + 2))
        found = Convolution(
            draw.choice([1, 2, 3]),
            features,
            outputs,
            sizes,
            windows,
            1 if is_batch else groups,
            groups if is_batch else 1,
            orders=(orders[0], orders[1], orders[2]),
        )
        work = features * outputs * groups
        for n, w in zip(sizes, windows, strict=True):
            work *= w.size * w.places(n)
        if 0 < work < 600_000:
            return found
