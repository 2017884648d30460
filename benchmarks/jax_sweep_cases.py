"""Arguments for functions of JAX's libraries: patterns that are tried on every function.

A pattern is a name and a function from a source of arrays to positional and keyword arguments.
NumPy arrays among them are traced, all else is static. Which patterns fit a function is found by
trying: a case is one that JAX can trace.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.sparse import BCOO

MODULES: Final = (
    "jax.numpy", "jax.numpy.linalg", "jax.numpy.fft", "jax.scipy.special", "jax.scipy.linalg",
    "jax.scipy.signal", "jax.scipy.fft", "jax.scipy.ndimage", "jax.scipy.integrate",
    "jax.scipy.cluster.vq", "jax.scipy.stats", "jax.lax", "jax.lax.linalg", "jax.nn", "jax.image",
    "jax.ops", "jax.random", "jax.experimental.sparse",
)  # fmt: skip
"""Modules whose public functions are swept."""

PROGRAMS: Final = ("jax_sweep_programs", "jax_sweep_libraries")
"""Modules of functions that have arguments of their own."""

UNSWEPT: Final = {
    "empty", "empty_like", "save", "savez", "fromfile", "load", "from_dlpack", "array_repr",
    "array_str", "printoptions", "set_printoptions", "get_printoptions", "frompyfunc", "put",
    "place", "fill_diagonal", "rng_uniform", "create_token", "after_all",
}  # fmt: skip
"""Names of what has no value of its own, changes its argument, or needs a file."""

SHAPES: Final = ((), (1,), (7,), (0,), (3, 4), (0, 3), (2, 1, 3), (4, 4), (2, 3, 3))
PAIRS: Final = (
    ((7,), (7,)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((), (5,)),
    ((0, 3), (1, 3)),
    ((4, 4), (4, 4)),
    ((2, 3, 3), (2, 3, 3)),
    ((4, 4), (4,)),
)


class Source:
    """Arrays of one element type, drawn from a seed; `kind` says which numbers they have."""

    def __init__(self, dtype: str, kind: str, seed: int) -> None:
        self.dtype = jnp.dtype(dtype)
        self.kind = kind
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        """Return an array of the element type."""
        rng, size = self._rng, int(np.prod(shape, dtype=int))
        if self.dtype == bool:
            return (rng.random(size) < 0.5).reshape(shape)
        if jnp.issubdtype(self.dtype, jnp.integer):
            return self._integers(size).reshape(shape)
        drawn = self._floats(size)
        if jnp.issubdtype(self.dtype, jnp.complexfloating):
            drawn = drawn + 1j * self._floats(size)
        return drawn.astype(self.dtype).reshape(shape)

    def key(self) -> np.ndarray:
        """Return a key of random numbers, in its raw form."""
        words = 2 if jax.config.jax_default_prng_impl == "threefry2x32" else 4
        return self._rng.integers(0, 2**32, words, dtype=np.uint32)

    def sparse(self, *shape: int) -> Any:
        """Return a sparse matrix of the element type, about half of it filled."""
        array = self(*shape)
        places = np.argwhere(self._rng.random(shape) < 0.5).astype(np.int32)
        made = BCOO((array[tuple(places.T)], places), shape=shape)
        return jax.tree.map(np.asarray, made)

    def index(self, *shape: int) -> np.ndarray:
        """Return an array of i32, small and not negative."""
        return self._rng.integers(0, 3, shape).astype(np.int32)

    def _integers(self, size: int) -> np.ndarray:
        about = jnp.iinfo(self.dtype)
        least = max(int(about.min), -9)
        drawn = self._rng.integers(least, min(10, int(about.max)) + 1, size).astype(self.dtype)
        if self.kind == "special":
            where = self._rng.random(size) < 0.4
            edges = np.array([about.min, about.max, 0, 1], self.dtype)
            drawn[where] = self._rng.choice(edges, int(where.sum()))
        return drawn

    def _floats(self, size: int) -> np.ndarray:
        if self.kind == "unit":
            return self._rng.uniform(0.05, 0.95, size)
        drawn = self._rng.normal(size=size) * 2
        if self.kind == "special":
            about = jnp.finfo(self.dtype)
            edges = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]
            edges += [float(about.max), float(about.tiny), 2.0, -3.0, 100.0, -88.5]
            return self._rng.choice(edges, size)
        return drawn


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Pattern = Callable[[Source], Arguments]


def _positional(*made: Any) -> Arguments:
    return made, {}


def patterns() -> dict[str, Pattern]:
    """Return the patterns by name."""
    found: dict[str, Pattern] = {"()": lambda s: ((), {})}
    for shape in SHAPES:
        found[f"x{list(shape)}"] = lambda s, a=shape: _positional(s(*a))
    for shape in ((3, 4), (0, 3), (2, 1, 3)):
        for axis in (0, -1):
            found[f"x{list(shape)}, axis={axis}"] = lambda s, a=shape, n=axis: (
                (s(*a),),
                {"axis": n},
            )
    for a, b in PAIRS:
        found[f"x{list(a)}, y{list(b)}"] = lambda s, a=a, b=b: _positional(s(*a), s(*b))
    a = (3, 4)
    found["3 x [3, 4]"] = lambda s: _positional(s(*a), s(*a), s(*a))
    found["4 x [3, 4]"] = lambda s: _positional(s(*a), s(*a), s(*a), s(*a))
    found["[x, y][3, 4]"] = lambda s: _positional([s(*a), s(*a)])
    found["[x, y][0, 2], axis=-1"] = lambda s: (([s(0, 2), s(0, 2)],), {"axis": -1})
    found["x[3, 4], index"] = lambda s: _positional(s(*a), s.index(2))
    found["x[5], index"] = lambda s: _positional(s(5), s.index(2))
    found["x[3, 4], index, axis=-1"] = lambda s: ((s(*a), s.index(2)), {"axis": -1})
    found["x[3, 4], 1"] = lambda s: _positional(s(*a), 1)
    found["x[0, 2], 1"] = lambda s: _positional(s(0, 2), 1)
    found["x[3, 4], 0, 1"] = lambda s: _positional(s(*a), 0, 1)
    found["2, x[3, 4]"] = lambda s: _positional(2, s(*a))
    found["x[3, 4], keepdims"] = lambda s: ((s(*a),), {"axis": 0, "keepdims": True})
    found["x[0, 2], axis=None"] = lambda s: ((s(0, 2),), {"axis": None})
    found["index, x[3, 4]"] = lambda s: _positional(s.index(*a), s(*a))
    found["mask, x[3, 4]"] = lambda s: _positional(s.index(*a) > 0, s(*a))
    found["mask, x[3, 4], y"] = lambda s: _positional(s.index(*a) > 0, s(*a), s(*a))
    found["x[3, 4], (2, 6)"] = lambda s: _positional(s(3, 4), (2, 6))
    found["x[3, 4], (1, 0)"] = lambda s: _positional(s(3, 4), (1, 0))
    found["x[2, 3, 3], 2 axes"] = lambda s: ((s(2, 3, 3),), {"axis": (0, 2)})
    found["n"] = lambda s: _positional(4)
    found["n, n"] = lambda s: _positional(4, 3)
    found["shape, dtype"] = lambda s: _positional((3, 2), s.dtype)
    found["n, dtype"] = lambda s: ((4,), {"dtype": s.dtype})
    found["x[7], q"] = lambda s: _positional(s(7), np.float32([0.1, 0.5, 1.0]))
    found["x[9], y[4]"] = lambda s: _positional(s(9), s(4))
    found["x[1, 2, 9], y[3, 2, 4]"] = lambda s: _positional(s(1, 2, 9), s(3, 2, 4))
    found["x[6, 5], y[3, 2]"] = lambda s: _positional(s(6, 5), s(3, 2))
    found["x[], y[], z[]"] = lambda s: _positional(s(), s(), s())
    found["x[3, 129]"] = lambda s: _positional(s(3, 129))
    found["x[129], axis=0"] = lambda s: ((s(129),), {"axis": 0})
    return {**found, **_image_patterns(), **_random_patterns(), **_sparse_patterns()}


def _image_patterns() -> dict[str, Pattern]:
    """Images to other sizes, values at places between pixels, sums by segment."""
    found: dict[str, Pattern] = {}
    for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5"):
        for sizes in ((2, 6), (5, 3), (3, 4)):
            found[f"x[3, 4], {sizes}, {method}"] = lambda s, n=sizes, m=method: _positional(
                s(3, 4), n, m
            )
        found[f"image, {method}"] = lambda s, m=method: _positional(
            s(3, 4), (5, 3), (0, 1), np.float32([1.5, 0.7]), np.float32([-0.5, 0.25]), m
        )
    for order in (0, 1):
        for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
            found[f"x[3, 4], places, {order}, {mode}"] = lambda s, n=order, m=mode: (
                (s(3, 4), list(np.float32([[-1.5, 0.25, 2, 5], [0, 3.75, 1.5, -6]]))),
                {"order": n, "mode": m},
            )
    for shape in ((7,), (7, 3), (7, 0)):
        found[f"x{list(shape)}, index[7], 4"] = lambda s, a=shape: _positional(
            s(*a), s.index(7) - 1, 4
        )
    return found


def _random_patterns() -> dict[str, Pattern]:
    """A key, and the parameters of distributions."""
    found: dict[str, Pattern] = {"key": lambda s: _positional(s.key())}
    for shape in ((), (3, 4), (0, 2), (129,)):
        found[f"key, {shape}"] = lambda s, a=shape: _positional(s.key(), a)
        found[f"key, {shape}, dtype"] = lambda s, a=shape: ((s.key(), a), {"dtype": s.dtype})
        found[f"key, 0.3, {shape}"] = lambda s, a=shape: _positional(s.key(), 0.3, a)
        found[f"key, 3.5, {shape}"] = lambda s, a=shape: _positional(s.key(), 3.5, a)
        found[f"key, 1.5, 2.5, {shape}"] = lambda s, a=shape: _positional(s.key(), 1.5, 2.5, a)
        found[f"key, {shape}, 2, 9"] = lambda s, a=shape: _positional(s.key(), a, 2, 9)
        found[f"key, 6, 0.4, {shape}"] = lambda s, a=shape: _positional(s.key(), 6.0, 0.4, a)
        found[f"key, 0, 0.5, 1, {shape}"] = lambda s, a=shape: _positional(
            s.key(), 0.0, 0.5, 1.0, a
        )
    for shape in ((7,), (3, 4), (4, 4)):
        found[f"key, x{list(shape)}"] = lambda s, a=shape: _positional(s.key(), s(*a))
        found[f"key, x{list(shape)}, y{list(shape)}"] = lambda s, a=shape: _positional(
            s.key(), s(*a), s(*a)
        )
    found["key, 5"] = lambda s: _positional(s.key(), 5)
    found["key, 5, (4,)"] = lambda s: _positional(s.key(), 5, (4,))
    found["key, mean[3], covariance"] = lambda s: _positional(
        s.key(), s(3), np.eye(3, dtype=s.dtype)
    )
    return found


def _sparse_patterns() -> dict[str, Pattern]:
    """Sparse matrices, by themselves and with dense ones."""
    found: dict[str, Pattern] = {}
    product = (((1,), (0,)), ((), ()))
    for shape in ((3, 4), (1, 5), (4, 4), (17, 9)):
        a, b = shape, shape[::-1]
        found[f"sparse{list(a)}"] = lambda s, a=a: _positional(s.sparse(*a))
        found[f"sparse{list(a)}, axes=0"] = lambda s, a=a: ((s.sparse(*a),), {"axes": (0,)})
        found[f"sparse{list(a)}, turned"] = lambda s, a=a: (
            (s.sparse(*a),),
            {"permutation": (1, 0)},
        )
        found[f"sparse{list(a)}, y"] = lambda s, a=a: _positional(s.sparse(*a), s(*a))
        found[f"sparse{list(a)}, sparse"] = lambda s, a=a: _positional(s.sparse(*a), s.sparse(*a))
        found[f"sparse{list(a)} times y"] = lambda s, a=a, b=b: (
            (s.sparse(*a), s(*b)),
            {"dimension_numbers": product},
        )
        found[f"y times sparse{list(a)}"] = lambda s, a=a, b=b: (
            (s(*b), s.sparse(*a)),
            {"dimension_numbers": product},
        )
        found[f"sparse{list(a)} times sparse"] = lambda s, a=a, b=b: (
            (s.sparse(*a), s.sparse(*b)),
            {"dimension_numbers": product},
        )
    return found


PATTERNS: Final = patterns()


def patterns_of(name: str) -> dict[str, Pattern]:
    """Return the patterns that are tried on a function; a program has its own arguments."""
    own = getattr(function(name), "arguments", None)
    return PATTERNS if own is None else {"own": own}


class Case:
    """A call of a function of arrays that are traced, with all else as it was given."""

    def __init__(
        self, label: str, pattern: str, called: Callable[..., Any], arguments: Arguments
    ) -> None:
        self.label = label
        self.pattern = pattern
        self._called = called
        self._leaves, self._tree = jax.tree.flatten(arguments, is_leaf=lambda x: x is None)
        self.arrays = [x for x in self._leaves if isinstance(x, np.ndarray)]

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arrays among the results."""
        given = iter(arrays)
        leaves = [next(given) if isinstance(x, np.ndarray) else x for x in self._leaves]
        positional, named = jax.tree.unflatten(self._tree, leaves)
        return [
            x for x in jax.tree.leaves(self._called(*positional, **named)) if hasattr(x, "dtype")
        ]


def gradient(case: Case) -> Callable[[Sequence[Any]], Any]:
    """Return the gradient of the sum of a case's floats by its floats."""

    def total(floats: Sequence[Any], arrays: Sequence[Any]) -> Any:
        given = iter(floats)
        mixed = [next(given) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in arrays]
        found = [x for x in case(mixed) if jnp.issubdtype(x.dtype, jnp.floating)]
        return sum([jnp.sum(x) for x in found])

    def run(arrays: Sequence[Any]) -> Any:
        floats = [x for x in arrays if jnp.issubdtype(x.dtype, jnp.floating)]
        return jax.grad(total)(floats, arrays)

    return run


def batched(case: Case) -> Callable[[Sequence[Any]], Any]:
    """Return a case over a batch of two: its arrays, and those turned round."""

    def run(arrays: Sequence[Any]) -> Any:
        pairs = [jnp.stack([x, jnp.flip(x)]) for x in arrays]
        return jax.vmap(lambda *x: case(x))(*pairs)

    return run


def function(name: str) -> Callable[..., Any]:
    """Return a function by the name that users write."""
    module, _, last = name.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), last)
    return found


def functions(rooms: Sequence[str]) -> Iterator[str]:
    """Yield the names of the public functions of some modules, of all where there is no name."""
    met = set()
    for module in modules():
        if rooms and module not in rooms:
            continue
        for name, value in vars(importlib.import_module(module)).items():
            if name[0] == "_" or name in UNSWEPT or inspect.isclass(value) or id(value) in met:
                continue
            is_program = hasattr(value, "arguments") or module not in PROGRAMS
            if callable(value) and is_program:
                met.add(id(value))
                yield f"{module}.{name}"


def modules() -> list[str]:
    """Return the names of the modules; each distribution of `jax.scipy.stats` is one."""
    stats = importlib.import_module("jax.scipy.stats")
    return [
        *MODULES,
        *PROGRAMS,
        *[f"{stats.__name__}.{x}" for x, y in vars(stats).items() if inspect.ismodule(y)],
    ]
