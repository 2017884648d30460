"""Small modules with all that makes bounds hard: text that is drawn, few instructions each.

Callees and branches return parameters and get values twice; results are not read; outputs are
arguments, the one that they overwrite or another one; loops leave some of their state as it is.
"""

from __future__ import annotations

import random

SIZES = (16, 16, 16, 32)


class _Body:
    """The lines of one computation, and the values that it has: (name, size)."""

    def __init__(self, module: SmallModule, sizes: list[int]) -> None:
        self.module, self.draw = module, module.draw
        self.lines: list[str] = []
        self.values: list[tuple[str, int]] = []
        self.parameters = [self._parameter(i, size) for i, size in enumerate(sizes)]

    def _parameter(self, number: int, size: int) -> tuple[str, int]:
        return self.add(f"parameter({number})", size)

    def add(self, right_side: str, size: int) -> tuple[str, int]:
        """A line that makes an array."""
        self.module.count += 1
        name = f"v{self.module.count}"
        self.lines.append(f"  {name} = f32[{size}] {right_side}")
        self.values.append((name, size))
        return self.values[-1]

    def some(self, size: int = 0) -> tuple[str, int]:
        """A value, of a size if one is given; made where there is none."""
        fit = [x for x in self.values if size in (0, x[1])]
        if fit:
            return self.draw.choice(fit)
        name, other = self.draw.choice(self.values)
        if other > size:
            return self.add(f"slice({name}), slice={{[0:{size}]}}", size)
        return self.add(
            f"concatenate({', '.join([name] * (size // other))}), dimensions={{0}}", size
        )

    def step(self) -> None:
        """A plain operation: in place or not, larger or smaller."""
        name, size = self.some()
        kind = self.draw.randrange(6)
        if kind == 0:
            self.add(f"negate({name})", size)
        elif kind == 1:
            self.add(f"reverse({name}), dimensions={{0}}", size)
        elif kind == 2:
            self.add(f"add({name}, {self.some(size)[0]})", size)
        elif kind == 3 and size == 16:
            others = [self.draw.choice(self.values) for _ in range(3)]
            is_same = self.draw.random() < 0.5
            parts = ", ".join([name if is_same or size != 16 else x for x, size in others])
            self.add(f"concatenate({name}, {parts}), dimensions={{0}}", 64)
        elif kind == 3:
            self.add(f"slice({name}), slice={{[{size - 16}:{size}]}}", 16)
        else:
            self.module.count += 1
            zero = f"z{self.module.count}"
            self.lines.append(f"  {zero} = s32[] constant(1)")
            self.add(f"dynamic-update-slice({name}, {self.some(16)[0]}, {zero})", size)

    def tuple_of(self, values: list[tuple[str, int]], root: str = "") -> tuple[str, str]:
        """A line with a tuple; return its name and its type."""
        self.module.count += 1
        name = f"t{self.module.count}"
        shape = type_of([size for _, size in values])
        self.lines.append(f"  {root}{name} = {shape} tuple({', '.join([x for x, _ in values])})")
        return name, shape

    def elements(self, name: str, sizes: list[int]) -> None:
        """Some of the elements of a tuple; the others are not read."""
        for index, size in enumerate(sizes):
            if self.draw.random() < 0.75:
                self.add(f"get-tuple-element({name}), index={index}", size)

    def text(self, name: str) -> str:
        """The computation."""
        return "\n".join([f"{name} {{", *self.lines, "}"])


def type_of(sizes: list[int]) -> str:
    """The type of a tuple of arrays."""
    return f"({', '.join([f'f32[{size}]' for size in sizes])})"


class SmallModule:
    """One module, by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = 0
        self.computations: list[str] = []

    def text(self) -> str:
        """The module."""
        draw = self.draw
        body = _Body(self, [draw.choice(SIZES) for _ in range(draw.randrange(1, 4))])
        inner = draw.randrange(2, 5)
        for at in range(inner):
            if at == 0 or draw.random() < 0.4:
                draw.choice((self._call, self._call, self._branches, self._loop))(body)
            else:
                body.step()
        outputs = self._returned(body, [draw.choice(SIZES) for _ in range(draw.randrange(1, 4))])
        body.tuple_of(outputs, "ROOT ")
        header = self._aliases(body, outputs)
        return "\n\n".join(
            [f"HloModule m{header}", *self.computations, f"ENTRY {body.text('main')}"]
        )

    def _aliases(self, body: _Body, outputs: list[tuple[str, int]]) -> str:
        free = list(range(len(body.parameters)))
        pairs = []
        for leaf, (_, size) in enumerate(outputs):
            fit = [x for x in free if body.parameters[x][1] == size]
            if fit and self.draw.random() < 0.6:
                free.remove(taken := self.draw.choice(fit))
                pairs.append(f"{{{leaf}}}: ({taken}, {{}}, may-alias)")
        return f", input_output_alias={{ {', '.join(pairs)} }}" if pairs else ""

    def _returned(self, body: _Body, sizes: list[int]) -> list[tuple[str, int]]:
        """Values to return; now and then a parameter, or one value twice."""
        return [body.some(size) for size in sizes]

    def _callee(self, sizes: list[int], results: list[int], steps: int) -> str:
        self.count += 1
        name = f"c{self.count}"
        inner = _Body(self, sizes)
        for _ in range(steps):
            inner.step()
        inner.tuple_of(self._returned(inner, results), "ROOT ")
        self.computations.append(inner.text(name))
        return name

    def _call(self, body: _Body) -> None:
        draw = self.draw
        given = [body.some() for _ in range(draw.randrange(1, 3))]
        results = [draw.choice(SIZES) for _ in range(draw.randrange(1, 3))]
        name = self._callee([size for _, size in given], results, draw.randrange(1, 3))
        for _ in range(draw.choice((1, 1, 2))):
            self.count += 1
            call = f"k{self.count}"
            operands = ", ".join([x for x, _ in given])
            body.lines.append(f"  {call} = {type_of(results)} call({operands}), to_apply={name}")
            body.elements(call, results)
            given = [body.some(size) for _, size in given]

    def _branches(self, body: _Body) -> None:
        """Each branch gets a tuple; some return what they are given."""
        draw = self.draw
        results = [draw.choice(SIZES) for _ in range(draw.randrange(1, 3))]
        names, operands = [], []
        for _ in range(2):
            given = [body.some() for _ in range(draw.randrange(1, 3))]
            sizes = [size for _, size in given]
            operands.append(body.tuple_of(given)[0])
            names.append(self._branch(sizes, results))
        self.count += 1
        number, choice = f"i{self.count}", f"k{self.count}"
        body.lines.append(f"  {number} = s32[] constant(1)")
        body.lines.append(
            f"  {choice} = {type_of(results)} conditional({number}, {', '.join(operands)}), "
            f"branch_computations={{{', '.join(names)}}}"
        )
        body.elements(choice, results)

    def _branch(self, sizes: list[int], results: list[int]) -> str:
        return self._of_tuple(sizes, results, self.draw.randrange(0, 3))

    def _of_tuple(self, sizes: list[int], results: list[int], steps: int) -> str:
        """A computation that is given a tuple."""
        self.count += 1
        name, given = f"c{self.count}", f"p{self.count}"
        inner = _Body(self, [])
        inner.lines.append(f"  {given} = {type_of(sizes)} parameter(0)")
        for index, size in enumerate(sizes):
            inner.add(f"get-tuple-element({given}), index={index}", size)
        for _ in range(steps):
            inner.step()
        inner.tuple_of(self._returned(inner, results), "ROOT ")
        self.computations.append(inner.text(name))
        return name

    def _loop(self, body: _Body) -> None:
        draw = self.draw
        given = [body.some() for _ in range(draw.randrange(1, 4))]
        sizes = [size for _, size in given]
        state = self._of_tuple(sizes, sizes, draw.randrange(1, 3))
        self.count += 1
        stop, loop = f"e{self.count}", f"k{self.count}"
        shape = type_of(sizes)
        lines = [f"  p{stop} = {shape} parameter(0)", f"  ROOT r{stop} = pred[] constant(false)"]
        self.computations.append("\n".join([f"{stop} {{", *lines, "}"]))
        first, _ = body.tuple_of(given)
        body.lines.append(f"  {loop} = {shape} while({first}), condition={stop}, body={state}")
        body.elements(loop, sizes)
