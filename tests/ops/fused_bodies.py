"""Small fused computations at random: what is read of a parameter, and where a result may lie."""

from __future__ import annotations

import random
from itertools import product
from math import prod

SHAPES = ((2, 2), (2, 3), (1, 4), (4,), (1,))
SUM = "sum { u = s32[] parameter(0) v = s32[] parameter(1) ROOT w = s32[] add(u, v) }"
KERNELS = ("", "", "", "", "rows", "one_pass", "loops")


def text_of(dimensions: tuple[int, ...], element: str = "s32") -> str:
    """The type of an array."""
    return f"{element}[{','.join(map(str, dimensions))}]"


class FusedBody:
    """A module with one fusion at its root, whose first two parameters are arrays of one shape.

    The others are starts of slices: two numbers. Results are converted to the type `returned`.
    """

    def __init__(self, seed: int, returned: str = "s32") -> None:
        self.returned = returned
        self.draw = random.Random(seed)
        self.kernel = self.draw.choice(KERNELS)
        self.shape = self.draw.choice(SHAPES)
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...]]] = []
        self.count = 0
        for i, shape in enumerate((self.shape, self.shape, (), ())):
            self.add(f"parameter({i})", shape)
        self.starts = ["v3", "v4", self.number(0), self.number(1), self.number(5)]

    def add(self, right_side: str, shape: tuple[int, ...]) -> str:
        """A line that makes an array."""
        self.count += 1
        self.lines.append(f"  v{self.count} = {text_of(shape)} {right_side}")
        self.values.append((f"v{self.count}", shape))
        return f"v{self.count}"

    def number(self, value: int) -> str:
        """A constant, which is no value to go on with."""
        self.count += 1
        self.lines.append(f"  v{self.count} = s32[] constant({value})")
        return f"v{self.count}"

    def some(self, shape: tuple[int, ...] | None = None) -> tuple[str, tuple[int, ...]]:
        """A value, of a shape if one is given; the latest are the most likely."""
        fit = [x for x in self.values if x[1] == shape or (shape is None and x[1])]
        return self.draw.choice(fit[-3:] if self.draw.random() < 0.6 else fit)

    def step(self) -> None:
        """One more operation."""
        name, shape = self.some()
        draw, rank = self.draw, len(shape)
        kind = draw.randrange(8)
        if kind < 2:
            self.add(f"add({name}, {self.some(shape)[0]})", shape)
        elif kind == 2:
            low, high = self.some(())[0], self.some(())[0]
            self.add(f"clamp({low}, {name}, {high})", shape)
        elif kind == 3:
            self._moved(name, shape)
        elif kind == 4:
            along = sorted(draw.sample(range(rank), draw.randrange(1, rank + 1)))
            kept = tuple([x for i, x in enumerate(shape) if i not in along])
            text = ",".join(map(str, along))
            self.add(f"reduce({name}, {self.starts[2]}), dimensions={{{text}}}, to_apply=sum", kept)
        elif kind == 5:
            self._spread()
        elif kind == 6:
            self._part(name, shape)
        else:
            self.update(name, shape)

    def _moved(self, name: str, shape: tuple[int, ...]) -> None:
        rank = len(shape)
        kind = self.draw.randrange(3)
        if kind == 0 and rank == 2:
            self.add(f"transpose({name}), dimensions={{1,0}}", shape[::-1])
        elif kind == 1:
            self.add(f"reverse({name}), dimensions={{{self.draw.randrange(rank)}}}", shape)
        else:
            count = prod(shape)
            made = self.draw.choice([(count,), (1, count), shape, self.shape])
            if count == prod(made):
                self.add(f"reshape({name})", made)

    def _spread(self) -> None:
        """A broadcast to the shape of the parameters, in whatever order of dimensions."""
        fit = [
            (name, places)
            for name, shape in self.values
            for places in product(range(len(self.shape)), repeat=len(shape))
            if len({*places}) == len(shape)
            and all(self.shape[x] == size for x, size in zip(places, shape, strict=True))
        ]
        name, places = self.draw.choice(fit)
        text = ",".join(map(str, places))
        self.add(f"broadcast({name}), dimensions={{{text}}}", self.shape)

    def _sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([self.draw.choice((1, size)) for size in shape])

    def _part(self, name: str, shape: tuple[int, ...]) -> str:
        """A slice, at numbers or at starts that the computation is given."""
        draw = self.draw
        sizes = self._sizes(shape)
        if draw.random() < 0.5:
            starts = ", ".join([draw.choice(self.starts) for _ in shape])
            text = ",".join(map(str, sizes))
            return self.add(
                f"dynamic-slice({name}, {starts}), dynamic_slice_sizes={{{text}}}", sizes
            )
        rows = []
        made = []
        for size, taken in zip(shape, sizes, strict=True):
            stride = draw.choice((1, 1, 2))
            first = draw.randrange(size - taken + 1)
            limit = min(size, first + stride * (taken - 1) + 1)
            rows.append(f"[{first}:{limit}:{stride}]")
            made.append(-(-(limit - first) // stride))
        return self.add(f"slice({name}), slice={{{', '.join(rows)}}}", tuple(made))

    def update(self, name: str, shape: tuple[int, ...]) -> str:
        """An update of an array by a part of it, of another one, or of what it was."""
        draw = self.draw
        fit = [
            x
            for x, sizes in self.values
            if len(sizes) == len(shape) and all(a <= b for a, b in zip(sizes, shape, strict=True))
        ]
        starts = ", ".join([draw.choice(self.starts) for _ in shape])
        return self.add(f"dynamic-update-slice({name}, {draw.choice(fit[-4:])}, {starts})", shape)

    def update_of_its_own(self) -> str:
        """An update of a parameter by what is made of a part of it, at nearly the same place."""
        draw = self.draw
        target, shape = self.values[0]
        part = self._part(self.add(f"bitcast({target})", shape), shape)
        if draw.random() < 0.4:
            self.add(f"negate({part})", self.values[-1][1])
        written, _ = self.values[-1]
        cut = next(x for x in self.lines if x.startswith(f"  {part} = "))
        starts = [draw.choice(self.starts) for _ in shape]
        if "dynamic-slice(" in cut and draw.random() < 0.8:
            starts = cut.partition("(")[2].partition(")")[0].split(", ")[1:]
            if draw.random() < 0.4:
                starts[draw.randrange(len(starts))] = draw.choice(self.starts)
        return self.add(f"dynamic-update-slice({target}, {written}, {', '.join(starts)})", shape)

    def text(self) -> str:
        """The module."""
        draw = self.draw
        is_update = not self.kernel and draw.random() < 0.7
        for _ in range(draw.randrange(0, 2) if is_update else draw.randrange(1, 6)):
            self.step()
        results = [self.values[-1][0]]
        if is_update:
            results = [
                self.update_of_its_own() if draw.random() < 0.7 else self.update(*self.values[0])
            ]
        if self.kernel or draw.random() < 0.3:
            results.append(draw.choice([x for x, _ in self.values[-4:]]))
        shapes = dict(self.values)
        if self.returned != "s32":
            for i, x in enumerate(results):
                results[i], shapes[f"r{i}"] = f"r{i}", shapes[x]
                made = text_of(shapes[x], self.returned)
                self.lines.append(f"  r{i} = {made} convert({x})")
        if len(results) == 1:
            made = text_of(shapes[results[0]], self.returned)
            self.lines[-1] = "  ROOT" + self.lines[-1][1:]
        else:
            made = f"({', '.join([text_of(shapes[x], self.returned) for x in results])})"
            self.lines.append(f"  ROOT t = {made} tuple({', '.join(results)})")
        config = f', backend_config={{"kernel":"{self.kernel}"}}' if self.kernel else ""
        given = ", ".join([f"p{i}" for i in range(4)])
        shapes_given = [self.shape, self.shape, (), ()]
        entry = [f"  p{i} = {text_of(x)} parameter({i})" for i, x in enumerate(shapes_given)]
        entry.append(f"  ROOT z = {made} fusion({given}), kind=kLoop, calls=f{config}")
        parts = ["HloModule m", SUM, "f {", *self.lines, "}", "ENTRY e {", *entry, "}"]
        return "\n".join(parts) + "\n"
