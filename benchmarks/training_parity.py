"""Losses of training steps in native code beside those of XLA:CPU.

    python benchmarks/training_parity.py [--models NAME,...] [--steps N] [--threads N] [--exact]
    python benchmarks/training_parity.py --gradients [--models resnet50,gpt2]
    python benchmarks/training_parity.py --results [--models NAME,...]

Trains models of `examples/`, from the same weights on the same batches: natively, and by XLA with
one thread and with two, each in a process of its own (with one thread it is kept on one core). The
first 5 losses have to agree to 1e-4 relative, or as well as XLA's own two runs do, times 3;
afterwards the distance from XLA is compared with that between XLA's own two runs, over the last
tenth of the steps; with --exact, both sides with a training in double precision, too. The rate of
ResNet-50 is 0.1 for each 256 images of a batch.

A training that doubles a rounding error with each layer says little about who rounds well. So with
--gradients the weights after one step are compared with those that XLA computes in double
precision: per side, the median and the greatest error of the arrays, in the 2-norm.

With --results every example runs once at full size, and all results are compared with those of
XLA: per model, the greatest error relative to the greatest magnitude of an array. Where that is
over 1e-3, both sides are compared with what XLA computes in double precision.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FIRST: Final = 5
"""Losses that have to agree closely."""

CLOSE: Final = 1e-4
DOUBTFUL: Final = 1e-3
"""Results that are further apart are compared with those in double precision; or two roundings."""

SPREADS: Final = 3.0

SIDES: Final = (("native", 2), ("xla", 2), ("xla", 1))


def training(name: str) -> tuple[Any, list[Any], Callable[[Any], tuple[Any, ...]]]:
    """Return an example, its state at the start, and a function that draws a batch."""
    import jax
    import numpy as np

    import models

    key = jax.random.key(0)
    if name == "resnet50":
        example = models.resnet50_train(batch=8)._replace(function=resnet50_step)
        params = jax.jit(models.init_resnet50)(key)
        velocity = jax.tree.map(np.zeros_like, params)
        state = [params, velocity, models.init_resnet50_stats(params)]

        def batch(random: Any) -> tuple[Any, ...]:
            labels = random.integers(0, 1000, 8).astype(np.int32)
            return random.standard_normal((8, 224, 224, 3)).astype(np.float32), labels

        return example, state, batch
    example = models.gpt2_train(batch=1, time=128)
    tokens = example.specs[2]
    params = jax.jit(lambda k: drawn(models, example, k))(key)
    state = [params, models.init_adam(params)]
    return example, state, lambda random: (random.integers(0, 50257, tokens.shape, np.int32),)


def resnet50_step(params: Any, velocity: Any, stats: Any, images: Any, labels: Any) -> Any:
    """The step of the example at a rate for a batch of 8."""
    import jax

    import models

    def loss_of(params: Any) -> Any:
        logits, new = models.resnet50(params, stats, images)
        return models.cross_entropy(logits, labels), new

    (loss, stats), gradients = jax.value_and_grad(loss_of, has_aux=True)(params)
    return *models.sgd(params, velocity, gradients, rate=0.1 * 8 / 256), stats, loss


def drawn(models: Any, example: Any, key: Any) -> Any:
    """Draw the weights of GPT-2 in the sizes of the example."""
    params = example.specs[0]
    layers = len(params["blocks"])
    vocabulary, width = params["tokens"].shape
    return models.init_gpt2(key, layers, width, vocabulary, params["positions"].shape[0])


def losses(name: str, side: str, threads: int, steps: int) -> Iterator[dict[str, float]]:
    """Train; yield the loss and the seconds of each step."""
    import jax
    import numpy as np

    example, state, batch = training(name)
    state = [jax.tree.map(np.array, x) for x in state]
    step: Any = jax.jit(example.function, donate_argnums=example.donate_argnums, keep_unused=True)
    if side == "exact":
        jax.config.update("jax_enable_x64", True)
        state = jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, state)
    else:
        lowered = step.lower(*example.specs)
        step = native_step(lowered, threads) if side == "native" else lowered.compile()
    random = np.random.default_rng(1)
    for _ in range(steps):
        given = batch(random)
        start = perf_counter()
        *state, loss = step(*state, *given)
        yield {"loss": float(loss), "seconds": perf_counter() - start}


def native_step(lowered: Any, threads: int) -> Callable[..., Any]:
    """Return native code of a lowered program as a function of trees."""
    import jax

    executable = native(lowered, threads)
    structure = jax.tree.structure(lowered.out_info)

    def step(*trees: Any) -> Any:
        results = executable(*jax.tree.leaves(trees), consume=True)
        return jax.tree.unflatten(structure, jax.tree.leaves(results))

    return step


def native(lowered: Any, threads: int) -> Any:
    """Return native code of a lowered program."""
    from lowtide.client.executable import compile_module
    from lowtide.frontend.hlo_text import parse_hlo
    from lowtide.options import Options

    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    return compile_module(parse_hlo(text), Options(threads=threads, cache=False))


def first_step(name: str, side: str, threads: int) -> list[Any]:
    """Return the arrays after one step, in double precision where the side is "exact"."""
    import jax
    import numpy as np

    example, state, batch = training(name)
    trees = [jax.tree.map(np.array, x) for x in (*state, *batch(np.random.default_rng(1)))]
    if side == "exact":
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == "f" else x, trees)
            return [np.asarray(x) for x in jax.tree.leaves(jax.jit(example.function)(*wide))]
    lowered = jax.jit(example.function, keep_unused=True).lower(*example.specs)
    step = native_step(lowered, threads) if side == "native" else lowered.compile()
    return [np.asarray(x) for x in jax.tree.leaves(step(*trees))]


# -- all results -----------------------------------------------------------------------------------


def random_leaf(spec: Any, random: Any) -> Any:
    """Draw an argument: small numbers, positive for what is a variance or a second moment."""
    import numpy as np

    if np.dtype(spec.dtype).kind in "iu":
        return random.integers(0, 4, spec.shape).astype(spec.dtype)
    drawn = random.random(spec.shape, np.float32) * 0.1
    return np.asarray(drawn).astype(spec.dtype)


def compare_results(name: str, threads: int) -> dict[str, Any]:
    """Run an example at full size on both sides, and by XLA in double precision if they differ."""
    import jax
    import numpy as np

    import models

    example = models.MODELS[name]()
    random = np.random.default_rng(0)
    arguments = [random_leaf(x, random) for x in jax.tree.leaves(example.specs)]
    jitted = jax.jit(example.function, keep_unused=True)
    lowered = jitted.lower(*example.specs)
    start = perf_counter()
    executable = native(lowered, threads)
    compile_seconds = perf_counter() - start
    start = perf_counter()
    ours = jax.tree.leaves(executable(*arguments))
    seconds = perf_counter() - start
    executable.release_memory()
    given = jax.tree.unflatten(jax.tree.structure(example.specs), arguments)
    theirs = [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*given))]
    found = {"results": len(ours), "compile": compile_seconds, "run": seconds}
    found["worst"] = worst(ours, theirs)
    if any(error(x, y) > doubtful(y.dtype) for x, y in zip(ours, theirs, strict=True)):
        exact = in_double_precision(jitted, given)
        found |= {"ours": worst(ours, exact), "theirs": worst(theirs, exact)}
    return found


def doubtful(dtype: Any) -> float:
    """How far results of a type may be apart before double precision says whose are right."""
    import jax.numpy as jnp

    is_float = jnp.issubdtype(dtype, jnp.floating)
    return max(DOUBTFUL, 2 * float(jnp.finfo(dtype).eps)) if is_float else DOUBTFUL


def worst(ours: list[Any], theirs: list[Any]) -> float:
    """The greatest of the errors of arrays."""
    return max(error(x, y) for x, y in zip(ours, theirs, strict=True))


def in_double_precision(jitted: Any, given: Any) -> list[Any]:
    """Return what XLA computes from the same arguments, in double precision."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def doubled(x: Any) -> Any:
        return x.astype(np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x

    with jax.enable_x64(True):
        given = jax.tree.map(doubled, given)
        return [np.asarray(x) for x in jax.tree.leaves(jitted(*given))]


def error(ours: Any, theirs: Any) -> float:
    """The greatest error by the greatest magnitude; infinite where only one is finite."""
    import numpy as np

    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    known = np.isfinite(b)
    scale = float(np.abs(b[known]).max(initial=0.0))
    return float(np.abs(a[known] - b[known]).max(initial=0.0)) / (scale or 1.0)


# -- processes -------------------------------------------------------------------------------------


def child(*arguments: str) -> Iterator[Any]:
    """Run this file in a process; yield what it prints, line by line."""
    source = str(ROOT / "src")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([source, environment.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with status {process.returncode}")


def compare_gradients(names: list[str]) -> None:
    """Print how far each side is from double precision after one step."""
    import numpy as np

    for name in names:
        sides = {}
        with tempfile.TemporaryDirectory() as folder:
            for side, threads in (("exact", 2), *SIDES):
                path = f"{folder}/{side}{threads}.npz"
                list(child("--side", f"{side}:{path}", name, str(threads), "1"))
                with np.load(path) as found:
                    sides[side, threads] = [found[x].astype(np.float64) for x in found.files]
        exact = sides.pop(("exact", 2))
        for (side, threads), arrays in sides.items():
            pairs = [(x, y) for x, y in zip(arrays, exact, strict=True) if np.any(y)]
            errors = [float(np.linalg.norm(x - y) / np.linalg.norm(y)) for x, y in pairs]
            found = f"median {np.median(errors):.2e}, greatest {max(errors):.2e}"
            print(f"{name:10} {side:6} {threads} after a step: {found}", flush=True)


def train_all(names: list[str], steps: int, *, exact: bool) -> None:
    """Print the losses of each model on each side, and how far they are apart."""
    for name in names:
        found = []
        for side, threads in SIDES:
            rows = list(child("--side", side, name, str(threads), str(steps)))
            found.append([x["loss"] for x in rows])
            seconds = min(x["seconds"] for x in rows)
            shown = " ".join([f"{x:.6f}" for x in found[-1][:FIRST]])
            print(f"{name:10} {side:6} {threads} {shown} .. {found[-1][-1]:.6f}  {seconds:.2f} s")
        ours, two, one = found
        first = apart_by(ours, two, FIRST)
        own = apart_by(one, two, FIRST)
        last = max(1, steps // 10)
        apart = max([abs(x - y) for x, y in zip(ours, two, strict=True)][-last:])
        spread = max([abs(x - y) for x, y in zip(one, two, strict=True)][-last:])
        is_close = first <= max(CLOSE, SPREADS * own)
        verdict = "agrees" if is_close and apart <= SPREADS * spread else "DIFFERS"
        verdict += off_by(name, steps, ours, two) if exact else ""
        early = f"first {FIRST}: {first:.2g} apart, XLA's own runs {own:.2g}"
        late = f"last {last}: {apart:.3g} apart, XLA's own runs {spread:.3g}"
        print(f"{name:10} {early}; {late}: {verdict}", flush=True)


def off_by(name: str, steps: int, ours: list[float], theirs: list[float]) -> str:
    """Return how far two trainings are from one in double precision, at its last tenth."""
    exact = [x["loss"] for x in child("--side", "exact", name, "2", str(steps))]
    last = max(1, steps // 10)
    off = [
        max([abs(x - y) for x, y in zip(side, exact, strict=True)][-last:])
        for side in (ours, theirs)
    ]
    return f"; off double precision by {off[0]:.3g}, XLA by {off[1]:.3g}"


def apart_by(ours: list[float], theirs: list[float], count: int) -> float:
    """The greatest relative distance among the first losses."""
    pairs = zip(ours[:count], theirs, strict=False)
    return max([abs(x - y) / abs(y) for x, y in pairs])


def in_child(side: str, name: str, threads: int, steps: int) -> None:
    """Do the part of a child process."""
    if threads == 1 and side.startswith("xla"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sys.path.insert(0, str(ROOT / "examples"))
    if side == "results":
        print(json.dumps(compare_results(name, threads)), flush=True)
        return
    if ":" in side:
        import numpy as np

        side, path = side.split(":", 1)
        np.savez(path, *first_step(name, side, threads))
        return
    for row in losses(name, side, threads, steps):
        print(json.dumps(row), flush=True)


def main() -> None:
    """Compare training, or all results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--results", action="store_true")
    parser.add_argument("--side", nargs=4, metavar=("SIDE", "MODEL", "THREADS", "STEPS"))
    given = parser.parse_args()
    if given.side:
        side, name, threads, steps = given.side
        in_child(side, name, int(threads), int(steps))
        return
    if given.gradients:
        compare_gradients((given.models or "resnet50,gpt2").split(","))
        return
    if not given.results:
        train_all((given.models or "resnet50,gpt2").split(","), given.steps, exact=given.exact)
        return
    everything = sorted(x.name.split(".")[0] for x in (ROOT / "examples").glob("*.hlo.xz"))
    for name in given.models.split(",") if given.models else everything:
        for row in child("--side", "results", name, str(given.threads), "1"):
            line = (
                f"{name:12} {row['results']:5} results, worst {row['worst']:.2e}, compiled in "
                f"{row['compile']:.1f} s, ran in {row['run']:.2f} s"
            )
            if "ours" in row:
                line += f"; from double precision: ours {row['ours']:.2e}, XLA {row['theirs']:.2e}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
