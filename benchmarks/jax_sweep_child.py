"""The process of `jax_sweep.py` that runs the cases of a function on both platforms."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from jax_sweep_cases import Case, Source, batched, function, gradient, patterns_of
from jax_sweep_differences import difference, is_near_exact

OURS: Final = jax.devices("lowtide")[0]
THEIRS: Final = jax.devices("cpu")[0]
WIDE: Final = bool(jax.config.jax_enable_x64)
NARROW_TYPES: Final = (
    "float32", "bfloat16", "float16", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bool",
    "complex64",
)  # fmt: skip
TYPES: Final = ("float64", "complex128", "int64", "uint64") if WIDE else NARROW_TYPES
"""The first one is tried with every pattern, the others with some of those that it fits."""

TOGETHER: Final = 40
"""Cases of one program; where it is refused, each runs in one of its own."""

LARGEST: Final = 1_000_000
NEEDS_VALUES: Final = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerBoolConversionError,
)
warnings.filterwarnings("ignore")

Run = Callable[[Sequence[Any]], Any]
Program = tuple[str, Case, Run]


def sweep(
    name: str, left_out: set[str], at: Callable[[str], None], most: int, types: Sequence[str]
) -> dict[str, Any]:
    """Return the number of cases of a function and its differences by label; `at` hears labels.

    Of more than `most` cases those are left out that lie between others.
    """
    run = _Sweep(left_out, at)
    jitted, eager = cases(name, types)
    jitted = spread(jitted, most)
    programs: list[Program] = [(x.label, x, x) for x in jitted]
    plain = [x for x in jitted if x.arrays and x.label.endswith(f"{types[0]} plain")]
    for case in spread(plain, 5):
        for word, made in (("grad", gradient(case)), ("vmap", batched(case))):
            if is_traced(case, made):
                programs.append((f"{word} {case.label}", case, made))
    for start in range(0, len(programs), TOGETHER):
        run.jitted(programs[start : start + TOGETHER])
    for case in [*spread(eager, 8), *spread(jitted, 2)]:
        run.eager(case)
    jax.clear_caches()
    return {"cases": run.count, "differences": run.found}


def cases(name: str, types: Sequence[str]) -> tuple[list[Case], list[Case]]:
    """Return the cases of a function that JAX traces, and those that only lack values for it."""
    jitted, eager = [], []
    fitting: dict[str, None] = {}
    for dtype in types:
        for case in drawn(name, dtype, list(fitting), is_first=dtype == types[0]):
            if is_traced(case, case):
                jitted.append(case)
                fitting[case.pattern] = None
            elif dtype in (types[0], "int32") and len(eager) < 16 and needs_values(case):
                eager.append(case)
    return jitted, eager


def drawn(name: str, dtype: str, fitting: Sequence[str], is_first: bool) -> Iterator[Case]:
    """Yield cases of one element type; `fitting` are the patterns that fit the function so far."""
    made = patterns_of(name)
    patterns = list(made) if is_first or not fitting else fitting
    for kind in kinds(dtype, name, is_first):
        some = patterns
        if fitting and not (is_first and kind == "plain"):
            filled = [x for x in patterns if "[0" not in x or kind == "plain"]
            some = spread(filled, 8 if is_first else 4)
        for pattern in list(some):
            label = f"{pattern} {dtype} {kind}"
            source = Source(dtype, kind, zlib.crc32(label.encode()))
            try:
                case = Case(label, pattern, function(name), made[pattern](source))
            except (TypeError, ValueError):
                continue
            if case.arrays or (kind == "plain" and (is_first or dtype == "int32")):
                yield case


def kinds(dtype: str, name: str, is_first: bool) -> tuple[str, ...]:
    """Return which numbers arrays of a type have; `Source` says what they are."""
    if dtype == "bool" or ("linalg" in name and "int" not in dtype):
        return ("plain",)
    return ("plain", "special", "unit") if is_first or dtype == "float16" else ("plain", "special")


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many of some things, taken evenly."""
    count = len(items)
    return list(items) if count <= most else [items[i * count // most] for i in range(most)]


def traced(case: Case, run: Run) -> Any:
    """Return the types of a case's results; raises what the function raises."""
    return jax.eval_shape(run, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in case.arrays])


def is_traced(case: Case, run: Run) -> bool:
    """Return whether JAX can trace a case, with results that are not empty or large.

    Which errors a function raises for arguments that do not fit it is up to the function.
    """
    try:
        leaves = jax.tree.leaves(traced(case, run))
    except Exception:
        return False
    return bool(leaves) and sum(x.size for x in leaves) < LARGEST


def needs_values(case: Case) -> bool:
    """Return whether a case lacks nothing but values to be traced."""
    try:
        traced(case, case)
    except NEEDS_VALUES:
        return True
    except Exception:
        return False
    return False


class _Sweep:
    """Runs cases and keeps how many there were and where the platforms differ."""

    def __init__(self, left_out: set[str], at: Callable[[str], None]) -> None:
        self.count = 0
        self.found: dict[str, str] = {}
        self._left_out = left_out
        self._at = at

    def jitted(self, programs: Sequence[Program]) -> None:
        """Compare cases of one program, or each by itself where the program is refused."""
        programs = [x for x in programs if x[0] not in self._left_out]
        label = programs[0][0] if len(programs) == 1 else f"group at {programs[0][0]}"
        if label in self._left_out:
            self._apart(programs)
            return
        self._at(label)
        given = [case.arrays for _, case, _ in programs]

        def whole(arrays: Sequence[Any]) -> Any:
            return [list(run(x)) for (_, _, run), x in zip(programs, arrays, strict=True)]

        ours, theirs = [self._answer(device, jax.jit(whole), given) for device in (OURS, THEIRS)]
        if len(programs) > 1 and (isinstance(ours, Exception) or isinstance(theirs, Exception)):
            self._apart(programs)
        elif self._both(label, ours, theirs):
            for (name, case, run), a, b in zip(programs, ours, theirs, strict=True):
                self._compare(name, case, run, a, b)

    def _apart(self, programs: Sequence[Program]) -> None:
        for program in programs:
            self.jitted([program])

    def eager(self, case: Case) -> None:
        """Compare a case that runs operation by operation."""
        label = f"eager {case.label}"
        if label in self._left_out:
            return
        self._at(label)
        ours, theirs = [self._answer(device, case, case.arrays) for device in (OURS, THEIRS)]
        if self._both(label, ours, theirs):
            self._compare(label, case, case, ours, theirs)

    def _answer(self, device: Any, run: Run, arrays: Any) -> Any:
        """Return the results on a device, or the error."""
        try:
            with jax.default_device(device):
                return jax.tree.map(np.asarray, run(jax.device_put(arrays, device)))
        except Exception as error:
            return error

    def _both(self, label: str, ours: Any, theirs: Any) -> bool:
        """Count a case that one of the platforms refuses; return whether both have results."""
        refused = isinstance(ours, Exception), isinstance(theirs, Exception)
        if refused[0] != refused[1]:
            who, error = ("ours", ours) if refused[0] else ("theirs", theirs)
            self.count += 1
            self.found[label] = f"{who} refuses: {type(error).__name__}: {str(error)[:200]!r}"
        return not any(refused)

    def _compare(self, label: str, case: Case, run: Run, ours: Any, theirs: Any) -> None:
        self.count += 1
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            words = difference(a, b)
            if words and not is_near_exact(a, b, self._exact(case, run, number)):
                self.found[label] = words
                return

    def _exact(self, case: Case, run: Run, number: int) -> Any:
        """Return a result as XLA:CPU has it in 64 bits, None where it has none there."""
        if WIDE or not case.arrays:
            return None
        try:
            with jax.enable_x64(True), jax.default_device(THEIRS):
                return np.asarray(
                    list(run([jnp.asarray(_widened(x)) for x in case.arrays]))[number]
                )
        except (TypeError, ValueError, RuntimeError):
            return None


def _widened(array: np.ndarray) -> np.ndarray:
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        return array.astype(np.complex128)
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array
