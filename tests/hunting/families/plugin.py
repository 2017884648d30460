"""Programs of JAX on the plugin and on XLA:CPU: eager, jitted, donated, in threads, called back.

Lines are inputs, and steps that call functions one after the other on values. All values that are
left are compared in the end, so that one which something else overwrote is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from math import prod
from random import Random
from typing import Any, Final, final
from warnings import catch_warnings

import numpy as np
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.families.lines import Document, LineFamily, compare, documents, drawn_array
from tests.hunting.families.plugin_functions import ANY, FLOAT, FUNCTIONS
from tests.hunting.family import HuntedCase
from tests.hunting.findings import Court, Judgement, Tell

from lowtide.ir.literal import Array

WAYS: Final = (
    *("eager", "jit", "donate", "threads", "callback", "scan", "cond", "vmap", "grad"),
    *("checkpoint", "aot", "map", "loop", "gradients", "thread"),
)
"""How a step calls its functions."""

_BY_ROWS: Final = frozenset({"vmap", "map", "loop", "gradients"})
"""Ways that call the functions with what lies at each place of the first dimension."""

_BY_GRADIENT: Final = frozenset({"grad", "gradients"})

_SIZES: Final = (1, 2, 3, 5, 8)
_FEW: Final = (1, 1, 2, 3)
_MANY_DIMENSIONS: Final = 9
_WIDE: Final = (16, 33, 64, 100, 257, 1000)
_MOST: Final = 600
_MOST_WIDE: Final = 60_000
_MOST_LARGE: Final = 300_000
"""The most elements of an array of a draft: one in three is wide, one in twelve large."""


@final
class PluginPrograms(LineFamily):
    """Programs of some steps, each of up to four functions."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The functions by the way in which they are called."""
        pairs = [("call", x, way) for x in FUNCTIONS for way in WAYS if _fits(x, way)]
        return {"call": tuple(pairs)}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a program with the call that was seen least."""
        draft = _Draft(random)
        cells = self.tables["call"]
        for _ in range(random.randint(2, 7)):
            _, function, way = counts.least(cells, random)
            draft.step(function, way)
        return HuntedCase("\n".join(draft.lines), seed, frozenset(draft.cells))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where the plugin gives other values than XLA:CPU."""
        court = Court(tell)
        _judge(court, case)
        return court.judgement()


def _fits(name: str, way: str) -> bool:
    found = FUNCTIONS[name]
    if way in _BY_GRADIENT and not found.is_smooth:
        return False
    return way not in _BY_ROWS or (found.rank == 0 and name not in ("transpose", "reshape"))


# -- drawing -------------------------------------------------------------------------------------


@final
class _Draft:
    """A program in the making; `values` are arrays of NumPy, which have the types and sizes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        size = random.randrange(12)
        self.wide = size < 5
        self.most = _MOST_LARGE if size == 4 else _MOST_WIDE if self.wide else _MOST
        self.lines: list[str] = []
        self.values: dict[str, Array] = {}
        self.cells: set[Cell] = set()

    def step(self, name: str, way: str) -> None:
        """Add a step that begins with a function, if there is something that it can take."""
        first = FUNCTIONS[name]
        types = FLOAT if way in _BY_GRADIENT else first.types
        by_rows = way in _BY_ROWS
        given = self._operands(types, first.rank + (by_rows or way == "scan"), first.count)
        arrays = [self.values[x] for x in given]
        if by_rows:
            arrays = [np.zeros(x.shape[1:], x.dtype) for x in arrays]
        made = _drawn(arrays, name)
        if made is None:
            return
        names = [name]
        for _ in range(self.random.randrange(3)):
            following = self.random.choice([*FUNCTIONS])
            found = FUNCTIONS[following]
            fits = found.count == 1 and made.dtype.name in found.types and made.ndim >= found.rank
            if fits and _fits(following, way) and made.size < self.most:
                after = _drawn([made], following)
                if after is not None:
                    names.append(following)
                    made = after
        result = f"v{len(self.lines)}"
        line = {"step": way, "functions": names, "of": given, "result": result}
        self.lines.append(json.dumps(line))
        self.values[result] = np.asarray(_whole_result(way, made, [self.values[x] for x in given]))
        if way == "donate":
            self.values.pop(given[0])
        self.cells |= {("call", x, way) for x in names}

    def _operands(self, types: Sequence[str], rank: int, count: int) -> list[str]:
        known = [
            name
            for name, x in self.values.items()
            if x.dtype.name in types and x.ndim >= rank and x.size < self.most
        ]
        if not known or self.random.randrange(3) == 0:
            sizes = self._sizes(rank)
            known = [self._input(self.random.choice([x for x in ANY if x in types]), sizes)]
        first = self.random.choice(known[-3:])
        if count == 1:
            return [first]
        x = self.values[first]
        alike = [k for k, y in self.values.items() if (y.dtype, y.shape) == (x.dtype, x.shape)]
        if len(alike) == 1 or self.random.randrange(4) == 0:
            alike = [self._input(x.dtype.name, x.shape)]
        return [first, self.random.choice(alike)]

    def _sizes(self, rank: int) -> list[int]:
        """Sizes of a new array: mostly of two dimensions or three, at times of few or many.

        One array in ten has no elements.
        """
        dimensions = self.random.choice((0, 1, 2, 2, 2, 2, 3, _MANY_DIMENSIONS))
        if dimensions == _MANY_DIMENSIONS:
            sizes = [self.random.choice(_FEW) for _ in range(dimensions)]
        else:
            sizes = [self._size() for _ in range(max(rank, dimensions))]
        while prod(sizes) > self.most:
            sizes[sizes.index(max(sizes))] = self.random.choice(_SIZES)
        if sizes and self.random.randrange(10) == 0:
            sizes[self.random.randrange(len(sizes))] = 0
        return sizes

    def _size(self) -> int:
        is_wide = self.wide and self.random.randrange(2) == 0
        return self.random.choice(_WIDE if is_wide else _SIZES)

    def _input(self, type_: str, sizes: Sequence[int]) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(json.dumps({"input": name, "type": type_, "sizes": list(sizes)}))
        self.values[name] = np.zeros(sizes, type_)
        return name


def _whole_result(way: str, made: Array, given: Sequence[Array]) -> Array:
    """An array like the result of a step, from one like that of its functions."""
    if way in _BY_GRADIENT:
        return np.zeros_like(given[0])
    if way in _BY_ROWS:
        return np.zeros((len(given[0]), *made.shape), made.dtype)
    return np.zeros((3, *made.shape), made.dtype) if way == "scan" else made


def _drawn(given: Sequence[Array], name: str) -> Array | None:
    """What a function makes of arrays, None where it has no meaning for their sizes."""
    with catch_warnings(action="ignore"):  # A mean of no elements warns, and is NaN.
        try:
            return np.asarray(_applied(np, [name], given))
        except (ValueError, IndexError):
            return None


def _applied(xp: Any, names: Sequence[str], given: Sequence[Any]) -> Any:
    """What functions make, the first of all operands, each further one of the result."""
    with np.errstate(all="ignore"):
        made = FUNCTIONS[names[0]].call(xp, *given)
        for name in names[1:]:
            made = FUNCTIONS[name].call(xp, made)
    return made if xp is not np else np.asarray(made)


# -- running -------------------------------------------------------------------------------------


def _jax() -> Any:
    """JAX with the plugin first, and XLA:CPU."""
    jax = import_module("jax")
    jax.config.update("jax_platforms", "lowtide,cpu")
    jax.config.update("jax_enable_x64", True)
    return jax


def _judge(court: Court, case: HuntedCase) -> None:
    jax = court.ask("jax", _jax)
    if jax is None:
        return
    lines = documents(case.text)
    expected = court.ask(
        "xla", lambda: _values(jax, jax.devices("cpu")[0], lines, case.conditions), is_ours=False
    )
    if expected is None:
        return
    got = court.ask(
        "plugin", lambda: _values(jax, jax.devices("lowtide")[0], lines, case.conditions)
    )
    if got is not None:
        floats = [x.dtype.kind in "fc" for x in expected]
        _compare(court, got, expected, floats)


def _compare(
    court: Court, got: Sequence[Array], expected: Sequence[Array], floats: Sequence[bool]
) -> None:
    """Compare arrays, complex ones by their parts."""

    def parts(arrays: Sequence[Array]) -> list[Array]:
        return [y for x in arrays for y in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]

    rounded = [
        flag for x, flag in zip(expected, floats, strict=True)
        for _ in range(2 if x.dtype.kind == "c" else 1)
    ]  # fmt: skip
    compare(court, "plugin", parts(got), parts(expected), rounded)


def _values(jax: Any, device: Any, lines: Sequence[Document], seed: int) -> list[Array]:
    """The values that are left after all steps on a device, in order."""
    random = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    donated: set[str] = set()
    with jax.default_device(device):
        for line in lines:
            if "input" in line:
                array = drawn_array(line["type"], line["sizes"], random)
                values[line["input"]] = jax.device_put(array, device)
                continue
            given = [values[x] for x in line["of"]]
            values[line["result"]] = _step(jax, line["step"], line["functions"], given)
            if line["step"] == "donate":
                donated.add(line["of"][0])
        return [np.asarray(x) for name, x in values.items() if name not in donated]


def _step(jax: Any, way: str, names: Sequence[str], given: Sequence[Any]) -> Any:
    def function(*arrays: Any) -> Any:
        return _applied(jax.numpy, names, arrays)

    return _CALLS[way](jax, function, names, given)


Call = Callable[[Any, Callable[..., Any], Sequence[str], Sequence[Any]], Any]


def _in_threads(jax: Any, function: Any, names: Any, given: Any) -> Any:
    compiled = jax.jit(function)
    with ThreadPoolExecutor(3) as pool:
        found = [x.result() for x in [pool.submit(compiled, *given) for _ in range(6)]]
    first = np.asarray(found[0]).tobytes()
    if any(np.asarray(x).tobytes() != first for x in found):
        raise AssertionError("threads get other values of one call")
    return found[-1]


def _donated(jax: Any, function: Any, names: Any, given: Any) -> Any:
    if any(x is given[0] for x in given[1:]):
        given = [given[0].copy(), *given[1:]]
    return jax.jit(function, donate_argnums=0)(*given)


def _called_back(jax: Any, function: Any, names: Any, given: Any) -> Any:
    shape = jax.eval_shape(function, *given)

    def on_host(*arrays: Any) -> Any:
        return np.asarray(_applied(np, names, [np.asarray(x) for x in arrays]), shape.dtype)

    return jax.jit(lambda *x: jax.pure_callback(on_host, shape, *x))(*given)


def _scanned(jax: Any, function: Any, names: Any, given: Any) -> Any:
    def step(carried: Any, _: Any) -> Any:
        return (carried[-1:] + carried[:-1]), function(*carried)

    return jax.jit(lambda *x: jax.lax.scan(step, x, None, length=3)[1])(*given)


def _chosen(jax: Any, function: Any, names: Any, given: Any) -> Any:
    def both(*x: Any) -> Any:
        made = function(*x)
        choice = jax.numpy.real(x[0]).sum() > 0
        return jax.lax.cond(choice, lambda y: y, lambda y: y[...], made)

    return jax.jit(both)(*given)


def _looped(jax: Any, function: Any, names: Any, given: Any) -> Any:
    """Each step of a loop stores what it makes of its rows in an array that is carried."""
    shape = jax.eval_shape(jax.vmap(function), *given)

    def steps(*arrays: Any) -> Any:
        def step(at: Any, made: Any) -> Any:
            return made.at[at].set(function(*[x[at] for x in arrays]))

        return jax.lax.fori_loop(0, len(given[0]), step, jax.numpy.zeros(shape.shape, shape.dtype))

    return jax.jit(steps)(*given)


def _gradients(jax: Any, function: Any, names: Any, given: Any) -> Any:
    return jax.jit(jax.vmap(jax.grad(lambda *x: function(*x).sum())))(*given)


def _on_one_thread(jax: Any, function: Any, names: Any, given: Any) -> Any:
    """A call on one thread, which has to give the bits that all threads give."""
    made = jax.jit(function)(*given)
    (device,) = given[0].devices()
    if device.platform == "lowtide":
        alone = jax.jit(function, compiler_options={"threads": 1})(*given)
        if np.asarray(alone).tobytes() != np.asarray(made).tobytes():
            raise AssertionError("one thread gives other values than all of them")
    return made


def _gradient(jax: Any, function: Any, names: Any, given: Any) -> Any:
    return jax.jit(jax.grad(lambda *x: function(*x).sum()))(*given)


_CALLS: Final[dict[str, Call]] = {
    "eager": lambda jax, f, names, x: f(*x),
    "jit": lambda jax, f, names, x: jax.jit(f)(*x),
    "donate": _donated,
    "threads": _in_threads,
    "callback": _called_back,
    "scan": _scanned,
    "cond": _chosen,
    "vmap": lambda jax, f, names, x: jax.jit(jax.vmap(f))(*x),
    "grad": _gradient,
    "map": lambda jax, f, names, x: jax.jit(lambda *y: jax.lax.map(lambda z: f(*z), y))(*x),
    "loop": _looped,
    "gradients": _gradients,
    "thread": _on_one_thread,
    "checkpoint": lambda jax, f, names, x: jax.checkpoint(f)(*x),
    "aot": lambda jax, f, names, x: jax.jit(f).lower(*x).compile()(*x),
}
