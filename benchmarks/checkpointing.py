"""Memory of gradients with and without `jax.checkpoint`, beside XLA:CPU's.

    python benchmarks/checkpointing.py [--only WORD] [--small] [--write docs/checkpointing.md]

Three networks, each plain and with checkpoints of several kinds: layers of a product and a tanh,
transformer blocks, and layers with dropout, written out or as a `lax.scan`. XLA's figure is
`temp + output` of `memory_analysis()`; ours is `arena_bytes`, of the plan with default options and
of the one after `loop-residual-recompute{contractions=true}`. With --small, the sizes are those of
a test. The exit status is 1 where a checkpoint takes more than none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

import lowtide
from lowtide import compiler
from lowtide.compiler.stages import pipeline
from lowtide.inspection.xla_program import needed_bytes
from lowtide.passes import run_pipeline
from lowtide.passes.registry import parse_passes

Spec = jax.ShapeDtypeStruct
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
RECOMPUTED: Final = "loop-residual-recompute{contractions=true}"
HEADER: Final = (
    "| network | checkpoint | XLA:CPU MB | ours MB | with contractions MB | seconds |",
    "|---|---|--:|--:|--:|--:|",
)


@dataclass(frozen=True)
class Sizes:
    """How large the networks are."""

    layers: int
    batch: int
    width: int
    blocks: int
    sequences: int
    time: int
    features: int
    heads: int


LARGE: Final = Sizes(24, 8192, 256, 4, 4, 512, 256, 8)
SMALL: Final = Sizes(6, 64, 32, 3, 2, 16, 32, 2)


@dataclass(frozen=True)
class Program:
    """A function to take the gradient of, and what it is called with."""

    network: str
    checkpoint: str
    function: Callable[..., Any]
    specs: tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """What a program takes; bytes beyond arguments."""

    program: Program
    xla: int
    ours: int
    recomputed: int
    seconds: float


# -- the networks ------------------------------------------------------------------------------


def tanh_layer(x: Any, w: Any) -> Any:
    """One product and a tanh."""
    return jnp.tanh(x @ w)


def dropout_layer(x: Any, weights: Any) -> Any:
    """One product, a ReLU, and dropout."""
    w, key = weights
    y = jax.nn.relu(x @ w)
    return jnp.where(jax.random.bernoulli(key, 0.9, y.shape), y / 0.9, 0.0)


def norm(x: Any, gain: Any) -> Any:
    """Layer normalization without an offset."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain


def block_layer(heads: int) -> Callable[..., Any]:
    """A transformer block: masked attention, then a hidden layer of four times the features."""

    def block(x: Any, p: Any) -> Any:
        b, t, d = x.shape
        parts = jnp.split(norm(x, p["before"]) @ p["qkv"], 3, -1)
        q, k, v = [y.reshape(b, t, heads, d // heads).transpose(0, 2, 1, 3) for y in parts]
        scores = q @ k.swapaxes(-1, -2) / (d // heads) ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        mixed = (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(b, t, d)
        x = x + mixed @ p["out"]
        return x + jax.nn.gelu(norm(x, p["after"]) @ p["up"]) @ p["down"]

    return block


def block_specs(d: int) -> dict[str, Any]:
    """The weights of a block."""
    shapes = {"before": (d,), "qkv": (d, 3 * d), "out": (d, d), "after": (d,)}
    shapes |= {"up": (d, 4 * d), "down": (4 * d, d)}
    return {name: Spec(shape, jnp.float32) for name, shape in shapes.items()}


def stacked(spec: Any, layers: int) -> Any:
    """The weights of all layers in one array each."""
    return jax.tree.map(lambda s: Spec((layers, *s.shape), s.dtype), spec)


# -- and how they are run ----------------------------------------------------------------------


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """No checkpoint."""
    return function


def saving(name: str) -> Wrap:
    """A checkpoint that saves what a policy of JAX says."""
    policy = getattr(jax.checkpoint_policies, name)
    return lambda function: jax.checkpoint(function, policy=policy)


def unrolled(layer: Callable[..., Any], segment: int, outer: Wrap, inner: Wrap) -> Any:
    """The gradient of layers one after the other; `outer` is put around segments of them."""

    def part(x: Any, weights: Sequence[Any]) -> Any:
        for w in weights:
            x = inner(layer)(x, w)
        return x

    def loss(weights: Sequence[Any], x: Any) -> Any:
        for i in range(0, len(weights), segment):
            x = outer(part)(x, weights[i : i + segment])
        return jnp.sum(x**2)

    return jax.grad(loss)


def scanned(layer: Callable[..., Any], wrap: Wrap) -> Any:
    """The gradient of layers as a scan."""
    step = wrap(layer)
    return jax.grad(
        lambda weights, x: jnp.sum(lax.scan(lambda x, w: (step(x, w), None), x, weights)[0] ** 2)
    )


def dropped(wrap: Wrap) -> Any:
    """The gradient of layers with dropout as a scan."""
    step = wrap(dropout_layer)

    def loss(weights: Any, x: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(weights))
        return jnp.sum(lax.scan(lambda x, w: (step(x, w), None), x, (weights, keys))[0] ** 2)

    return jax.grad(loss)


def programs(sizes: Sizes) -> Iterator[Program]:
    """Yield all programs; of each network the plain one comes first."""
    layers, blocks = sizes.layers, sizes.blocks
    weight = Spec((sizes.width, sizes.width), jnp.float32)
    mlp = [weight] * layers, Spec((sizes.batch, sizes.width), jnp.float32)
    yield Program("layers", "none", unrolled(tanh_layer, layers, plain, plain), mlp)
    for n in (1, 2, 4, 6, 12, 24):
        if layers % n == 0:
            function = unrolled(tanh_layer, n, jax.checkpoint, plain)
            yield Program("layers", f"each {n}", function, mlp)
    nested = unrolled(tanh_layer, layers // 6 or 1, jax.checkpoint, jax.checkpoint)
    yield Program("layers", f"each {layers // 6 or 1}, nested", nested, mlp)
    for name in ("dots_saveable", "everything_saveable"):
        function = unrolled(tanh_layer, layers // 6 or 1, saving(name), plain)
        yield Program("layers", name, function, mlp)
    block = block_layer(sizes.heads)
    tokens = Spec((sizes.sequences, sizes.time, sizes.features), jnp.float32)
    weights = block_specs(sizes.features)
    args = [weights] * blocks, tokens
    yield Program("blocks", "none", unrolled(block, blocks, plain, plain), args)
    for n in (1, 2):
        yield Program("blocks", f"each {n}", unrolled(block, n, jax.checkpoint, plain), args)
    for name in POLICIES:
        yield Program("blocks", name, unrolled(block, 1, saving(name), plain), args)
    scan_args = stacked(weight, layers), mlp[1]
    yield from in_scan("layers in a scan", lambda wrap: scanned(tanh_layer, wrap), scan_args)
    block_args = stacked(weights, blocks), tokens
    yield from in_scan("blocks in a scan", lambda wrap: scanned(block, wrap), block_args)
    yield from in_scan("dropout in a scan", dropped, (*scan_args, Spec((2,), jnp.uint32)))


POLICIES: Final = ("dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable")


def in_scan(
    name: str, function: Callable[[Wrap], Callable[..., Any]], specs: tuple[Any, ...]
) -> Iterator[Program]:
    """Yield a network in a scan, with a checkpoint around each step or none."""
    yield Program(name, "none", function(plain), specs)
    yield Program(name, "each step", function(jax.checkpoint), specs)
    yield Program(name, "dots_saveable", function(saving("dots_saveable")), specs)


# -- measuring ---------------------------------------------------------------------------------


def measured(program: Program) -> Row:
    """Compile a program with XLA, and plan it."""
    lowered = jax.jit(program.function, keep_unused=True).lower(*program.specs)
    memory = lowered.compile().memory_analysis()
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    start = time.process_time()
    ours = compiler.explain(lowtide.parse_hlo(text)).ladder.arena_bytes
    seconds = time.process_time() - start
    module = lowtide.parse_hlo(text)
    run_pipeline(module, (*pipeline("simplified"), *parse_passes(RECOMPUTED)))
    recomputed = compiler.explain(module).ladder.arena_bytes
    xla = needed_bytes(memory)
    return Row(program, xla, ours, recomputed, seconds)


def shown(row: Row) -> str:
    """A row of the table; sizes in MB of 10^6 bytes."""
    sizes = [f"{x / 1e6:,.2f}" for x in (row.xla, row.ours, row.recomputed)]
    program = row.program
    cells = [program.network, program.checkpoint, *sizes, f"{row.seconds:.2f}"]
    return f"| {' | '.join(cells)} |"


def worse_than_none(rows: Iterable[Row]) -> list[str]:
    """The programs whose checkpoints take more than none by more than a thousandth."""
    none: dict[str, int] = {}
    found = []
    for row in rows:
        least = none.setdefault(row.program.network, row.ours)
        if row.ours > 1.001 * least:
            name = f"{row.program.network}, {row.program.checkpoint}"
            found.append(f"{name}: {row.ours / least - 1:+.1%}")
    return found


def main() -> int:
    """Measure, print, and write a page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="networks whose name has this word")
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    arguments = parser.parse_args()
    print("\n".join(HEADER))
    rows = []
    for program in programs(SMALL if arguments.small else LARGE):
        if arguments.only in program.network:
            rows.append(measured(program))
            print(shown(rows[-1]), flush=True)
    worse = worse_than_none(rows)
    lines = [f"- more than without a checkpoint: {'; '.join(worse) or 'none'}"]
    print("\n".join(["", *lines]))
    if arguments.write is not None:
        _write(arguments.write, [*lines, "", *HEADER, *map(shown, rows)])
    return 1 if worse else 0


BEGIN: Final = "<!-- table -->"


def _write(page: Path, lines: Sequence[str]) -> None:
    """Put lines in place of what stands behind the mark."""
    before, mark, _ = page.read_text().partition(BEGIN)
    page.write_text("\n".join([f"{before}{mark or BEGIN}", "", *lines, ""]))


if __name__ == "__main__":
    raise SystemExit(main())
