"""What a call costs through JAX's plugin: beside XLA:CPU, and beside `lowtide.compile`.

    python benchmarks/plugin_overhead.py [--rounds N]
    python benchmarks/plugin_overhead.py --programs FILE [--scale medium] [--threads 2]

The first form times calls of tiny programs by `jax.jit` on both platforms in one process, in turns;
the figure is the least time of a call over all slices, in microseconds, and the ratio to XLA:CPU.
The second form runs the programs that FILE registers (see `jax_programs.py`), by
`jax.jit` on the plugin and by `lowtide.compile` of the same module, in turns, each until its
results are there: milliseconds, and how much longer the plugin takes. Arguments that are donated
are the results of the call before.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "lowtide,cpu"  # before JAX is imported

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vs_xla import alternating, chosen_programs, compiled, differences, fed_back, hlo_text


def tiny_calls(device: Any) -> dict[str, Callable[[], Any]]:
    """Return calls of tiny programs on a device, by name."""
    import jax
    import numpy as np

    number = jax.device_put(np.float32(1), device)
    host = np.ones(16, np.float32)
    add = jax.jit(lambda x: x + 1)
    many = jax.jit(lambda *x: x[0] + 1, keep_unused=True)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    state = [jax.device_put(np.float32(1), device)]

    def donated() -> None:
        state[0] = step(state[0])

    return {
        "scalar add": lambda: add(number),
        "scalar add, and wait": lambda: add(number).block_until_ready(),
        "scalar add, donated": donated,
        "scalar add, and fetch": lambda: np.asarray(add(number)),
        "16 arguments": lambda: many(*[number] * 16),
        "16 floats to the device": lambda: jax.device_put(host, device),
    }


def print_tiny(rounds: int) -> None:
    """Print one line for each tiny program."""
    import jax

    ours, theirs = (tiny_calls(jax.devices(x)[0]) for x in ("lowtide", "cpu"))
    print(f"{'us a call':26}{'lowtide':>9}{'XLA:CPU':>9}{'ratio':>7}")
    for name in ours:
        seconds = alternating([ours[name], theirs[name]], rounds * 0.02, 0.005)
        mine, other = (x * 1e6 for x in seconds)
        print(f"{name:26}{mine:9.2f}{other:9.2f}{mine / other:7.2f}", flush=True)


def both_ways(program: Any, threads: int, seconds: float) -> tuple[float, float, tuple[str, ...]]:
    """Return the seconds of a call on the plugin and without it, and in words what differs."""
    import jax
    import numpy as np

    from lowtide.analysis.donation import aliases as aliases_of
    from lowtide.evaluator import value_leaves

    with jax.enable_x64(program.is_64_bit):
        module, executable, _ = compiled(hlo_text(program), threads)
        aliases = [(x.output, x.parameter) for x in aliases_of(module)]
        reference = program._lowered().compile(compiler_options={"threads": threads})
        structure = jax.tree.structure(program.tree)

        def plugin(arguments: list[Any]) -> Any:
            given = jax.tree.unflatten(structure, arguments)
            return jax.tree.leaves(jax.block_until_ready(reference(*given)))

        here = [np.array(x) for x in program.arguments()]
        there = [jax.numpy.array(x) for x in jax.tree.leaves(program.tree)]
        direct = fed_back(
            lambda a: list(value_leaves(executable(*a, consume=bool(aliases)))), here, aliases
        )
        through = fed_back(plugin, there, aliases)
        differing = differences(direct(), through())
        ours, theirs = alternating([through, direct], seconds)
    return ours, theirs, differing


def print_programs(given: argparse.Namespace) -> None:
    """Print one line for each program, and how many take too long."""
    late = []
    print(f"{'ms a call':32}{'plugin':>10}{'compile':>10}{'more':>8}")
    for program in chosen_programs(given):
        try:
            ours, direct, differing = both_ways(program, given.threads, given.seconds)
        except Exception as error:
            print(f"{program.name:32} {type(error).__name__}: {str(error)[:120]}", flush=True)
            continue
        more = ours / direct - 1
        late += [program.name] if direct > 1e-3 and more > 0.03 else []
        print(
            f"{program.name:32}{ours * 1e3:10.3f}{direct * 1e3:10.3f}{more:8.1%}",
            *differing,
            flush=True,
        )
    print(f"above 1 ms and more than 3% slower: {', '.join(late) or 'none'}")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="parts of names, between commas")
    given = parser.parse_args()
    if given.programs:
        print_programs(given)
    else:
        print_tiny(given.rounds)


if __name__ == "__main__":
    main()
