"""Time of the processor until there is a first result, beside XLA:CPU.

    python benchmarks/first_result.py [--rounds N] [--write docs/first_result.md]

Each figure is the time of the processor (user and system, all threads) of a process of its own with
a cache of its own, empty but where the table says full; processes of both sides take turns, and the
median of the rounds counts. What Python needs to load modules is in it, from compiled files, as an
installed package has them.

- first program: `jax.jit` of a product, a tanh and a sum, from `import jax` to the result.
- ten instructions: `lowtide.compile` of ten instructions and a call, from `import numpy`; XLA:CPU
  compiles them from `import jax`.
- eager operations: 300 of `jax.numpy`, 100 functions of three kinds of arrays, until all have run.
- small programs: compiling those of `small_jax_programs.py` one after the other in one process,
  the two sides in turn, once a tiny program has been compiled on either: the sum, and the
  geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

BEGIN, END = "<!-- begin first result -->", "<!-- end first result -->"
SIDES: Final = ("lowtide", "cpu")

TINY: Final = "HloModule tiny\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] add(x, x)\n}"
TEN: Final = """
HloModule ten
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  product = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = f32[] constant(1)
  ones = f32[64,64] broadcast(one), dimensions={}
  more = f32[64,64] add(product, ones)
  bent = f32[64,64] tanh(more)
  turned = f32[64,64] transpose(bent), dimensions={1,0}
  back = f32[64,64] multiply(turned, y)
  ROOT last = f32[64,64] subtract(back, x)
}
"""

_ONE: Final = """
abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh deg2rad degrees exp exp2
expm1 fabs floor imag isfinite isinf isnan log log10 log1p log2 logical_not negative positive real
rad2deg radians reciprocal rint sign signbit sin sinc sinh sqrt square tan tanh trunc all any argmax
argmin count_nonzero cumprod cumsum max mean min prod ptp std sum var argsort diff flip nan_to_num
nanmax nanmean nanmin nansum ravel sort atleast_3d unwrap nancumsum median
"""
_TWO: Final = """
add arctan2 copysign divide equal float_power floor_divide fmax fmin greater greater_equal hypot
heaviside less less_equal logaddexp logical_and logical_or maximum minimum multiply not_equal outer
power remainder subtract
"""


def eager_calls() -> Iterator[Callable[[], Any]]:
    """Yield 300 calls of `jax.numpy`: of 100 functions, for three kinds of arrays."""
    import jax.numpy as jnp

    numbers = jnp.linspace(0.1, 0.9, 24, dtype=jnp.float32)
    kinds = (numbers, numbers.reshape(4, 6), (numbers * 30).astype(jnp.int32))
    for x in kinds:
        for name in _ONE.split():
            yield lambda x=x, name=name: getattr(jnp, name)(x)
        for name in _TWO.split():
            yield lambda x=x, name=name: getattr(jnp, name)(x, x)


# -- what runs in a process of its own -------------------------------------------------------------


def first_program() -> float:
    """Return the seconds from JAX's import to the first result."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    start = process_time()
    x = np.ones((8, 8), np.float32)
    np.asarray(jax.jit(lambda x: jnp.tanh(x @ x.T + 1).sum(0) * 2 - 3)(x))
    return process_time() - start


def ten_instructions() -> float:
    """Return the seconds from NumPy's import, on the other side from JAX's, to a first result."""
    import numpy as np

    given = np.ones((2, 64, 64), np.float32)
    if os.environ["JAX_PLATFORMS"] == "lowtide":
        start = process_time()
        import lowtide

        lowtide.compile(lowtide.parse_hlo(TEN))(*given)
        return process_time() - start
    import jax
    import jax.numpy as jnp

    start = process_time()
    jax.jit(lambda x, y: jnp.tanh(x @ y + 1).T * y - x)(*given).block_until_ready()
    return process_time() - start


def eager_operations() -> float:
    """Return the seconds from JAX's import until each of the operations has run once."""
    import jax
    import jax.numpy as jnp

    assert jnp is not None
    start = process_time()
    for call in eager_calls():
        jax.block_until_ready(call())
    return process_time() - start


def small_programs() -> Mapping[str, tuple[float, float]]:
    """Return the seconds to compile each small program on both sides."""
    import jax
    import numpy as np

    import lowtide
    from small_jax_programs import PROGRAMS

    options = lowtide.Options(threads=2, cache=False)
    lowtide.compile(lowtide.parse_hlo(TINY), options=options)
    jax.jit(lambda x: x + x).lower(np.ones(8, np.float32)).compile()
    found = {}
    for name, program in PROGRAMS.items():
        function, arguments = program()
        lowered = jax.jit(function).lower(*arguments)
        text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
        start = process_time()
        lowtide.compile(lowtide.parse_hlo(text), options=options)
        ours, start = process_time() - start, process_time()
        lowered.compile()
        found[name] = (ours, process_time() - start)
    return found


CHILDREN: Final[dict[str, Callable[[], Any]]] = {
    x.__name__: x for x in (first_program, ten_instructions, eager_operations, small_programs)
}


# -- the table -------------------------------------------------------------------------------------


def in_process(name: str, platform: str, cache: Path, compiled: Path) -> Any:
    """Return what a child finds on a platform, with a cache and compiled files in given folders."""
    environment = {k: x for k, x in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "JAX_PLATFORMS": platform,
        "LOWTIDE_CACHE": str(cache),
        "PYTHONPYCACHEPREFIX": str(compiled),
    }
    command = [sys.executable, __file__, "--child", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} on {platform} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def both_sides(name: str, rounds: int, folder: Path) -> list[list[float]]:
    """Return the seconds on each side with an empty cache, then ours with the full one."""
    found: list[list[float]] = [[], [], []]
    for number in range(rounds + 1):  # The first round compiles Python's files.
        cache, compiled = folder / f"{name}-{number}", folder / "compiled"
        seconds = [in_process(name, side, cache, compiled) for side in SIDES]
        seconds.append(in_process(name, SIDES[0], cache, compiled))
        if number:
            for row, x in zip(found, seconds, strict=True):
                row.append(x)
    return found


def rows(rounds: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| what | lowtide, s | XLA:CPU, s | ratio |"
    yield "|---|--:|--:|--:|"
    with TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("first_program", "ten_instructions", "eager_operations"):
            ours, theirs, full = (median(x) for x in both_sides(name, rounds, folder))
            said = name.replace("_", " ")
            yield f"| {said}, empty cache | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |"
            yield f"| {said}, full cache | {full:.3f} | {theirs:.3f} | {full / theirs:.2f} |"
        found = in_process("small_programs", "cpu", folder / "small", folder / "compiled")
    ours, theirs = (sum([x[side] for x in found.values()]) for side in (0, 1))
    mean = geometric_mean([a / b for a, b in found.values()])
    yield f"| {len(found)} small programs, sum | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |"
    yield f"| {len(found)} small programs, geometric mean of the ratios | | | {mean:.2f} |"


def main() -> None:
    """Run one child, or all of them in turn, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the document whose table is replaced")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(CHILDREN[given.child]()))
        return
    lines = []
    for line in rows(given.rounds):
        print(line, flush=True)
        lines.append(line)
    if given.write:
        before, rest = given.write.read_text().split(BEGIN)
        after = rest.split(END)[1]
        table = "\n".join(lines)
        given.write.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
