"""The process of `gpu.py` that runs the same work by JAX on the same card, else by CuPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpu_cases import cases
from gpu_ours import Answer, _line, drawn, timed
from lowtide.frontend.hlo_text import parse_hlo


def serve(pipe: Connection) -> None:
    """Answer (what, others) by what was found, or an error in one line."""
    os.environ["JAX_PLATFORMS"] = "cuda"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    while True:
        try:
            what, others = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(REQUESTS[what](*others))
        except Exception as error:
            pipe.send({"error": f"{type(error).__name__}: {_line(error)}"})


@cache
def jax_device() -> Any:
    """The first device of JAX on a card; raises what JAX does where it has none."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    return jax.devices()[0]


def device() -> Answer:
    """What there is to compare with."""
    found: Answer = {}
    try:
        import jax

        found["jax"] = f"{jax.__version__}, {jax_device().device_kind}"
    except Exception as error:
        found["no_jax"] = f"{type(error).__name__}: {_line(error)}"
    try:
        import cupy

        cupy.zeros(1)
        found["cupy"] = cupy.__version__
    except Exception as error:
        found["no_cupy"] = f"{type(error).__name__}: {_line(error)}"
    return found


def case(is_toy: bool, name: str, seconds: float, by: str) -> Answer:
    """The time of a case by its part and name."""
    found = next(x for x in cases(is_toy) if f"{x.part}: {x.name}" == name)
    arguments = drawn(parse_hlo(found.text))
    return (_by_jax if by == "jax" else _by_cupy)(found.name, arguments, seconds)


def _by_jax(name: str, arguments: list[Any], seconds: float) -> Answer:
    import jax

    function = jax.jit(_in_jax(name))
    with jax.enable_x64(True):
        given = [jax.device_put(x, jax_device()) for x in arguments]
        last: list[Any] = []

        def run() -> None:
            last[:] = [function(*given)]

        return {"seconds": timed(run, lambda: jax.block_until_ready(last), seconds), "by": "JAX"}


def _in_jax(name: str) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def norm(x: Any, g: Any) -> Any:
        d = x - x.mean(1, keepdims=True)
        return d * lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * g

    def product(x: Any, y: Any) -> Any:
        return lax.dot(x, y, preferred_element_type=jnp.int32 if x.dtype == jnp.int8 else x.dtype)

    def scattered(x: Any, k: Any, y: Any) -> Any:
        spread = (jnp.arange(len(k), dtype=jnp.int32) * jnp.int32(40503) + k).astype(jnp.uint32)
        return x.at[(spread % jnp.uint32(len(x))).astype(jnp.int32)].add(y)

    def sums_of_features(x: Any) -> Any:
        return x.sum((0, 1, 2)), (x * x).sum((0, 1, 2))

    def embedding(k: Any, y: Any) -> Any:
        spread = (jnp.arange(len(k), dtype=jnp.int32) * jnp.int32(40503) + k).astype(jnp.uint32)
        words = len(k) // 4
        rows = (spread % jnp.uint32(words)).astype(jnp.int32)
        return jnp.zeros((words, y.shape[1]), y.dtype).at[rows].add(y)

    def pooled(x: Any) -> Any:
        padding = ((0, 0), (0, 1), (0, 1), (0, 0))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)

    known: dict[str, Callable[..., Any]] = {
        "x * y + x, f32": lambda x, y: x * y + x,
        "silu, bf16": jax.nn.silu,
        "tanh(x + bias), f32": lambda x, b: jnp.tanh(x + b),
        "transpose, f32": jnp.transpose,
        "sum of rows, f32": lambda x: x.sum(1),
        "sum of columns, f32": lambda x: x.sum(0),
        "sum of all, f32": jnp.sum,
        "softmax of rows, f32": lambda x: jax.nn.softmax(x, axis=1),
        "layer norm of rows, f32": norm,
        "mean of squares of all, f32": lambda x, y: ((x - y) ** 2).mean(),
        "sums of features and squares, f32": sums_of_features,
        "bias gradient, bf16": lambda x: x.astype(jnp.float32).sum(0).astype(jnp.bfloat16),
        "transposes of a batch, f32": lambda x: x.transpose(0, 2, 1),
        "features first, bf16": lambda x: x.transpose(0, 3, 1, 2),
        "x transposed + y, f32": lambda x, y: x.T + y,
        "softmax of rows, bf16": lambda x: jax.nn.softmax(x.astype(jnp.float32), axis=1).astype(
            jnp.bfloat16
        ),
        "sort, one row": jnp.sort,
        "sort, many rows": lambda x: jnp.sort(x, axis=1),
        "sort of pairs": lambda x, y: lax.sort((x, y), dimension=1, num_keys=1),
        "running sum": jnp.cumsum,
        "running sums of rows": lambda x: jnp.cumsum(x, axis=1),
        "scatter that adds": scattered,
        "gradient of an embedding": embedding,
        "pooling": pooled,
        "gradient of pooling": lambda x, y: jax.vjp(pooled, x)[1](y)[0],
    }
    if name == "random bits":
        count = next(x.nbytes for x in cases(is_toy=False) if x.name == name) // 4
        how = lax.RandomAlgorithm.RNG_THREE_FRY
        words = partial(lax.bitcast_convert_type, new_dtype=jnp.uint32)
        return lambda s: lax.rng_bit_generator(words(s).reshape(4), (count,), jnp.uint32, how)
    if name in known:
        return known[name]
    if name.startswith("the largest "):
        return lambda x: lax.top_k(x, int(name.split()[-1]))
    return jnp.fft.fft if name.startswith("FFT") else product


def _by_cupy(name: str, arguments: list[Any], seconds: float) -> Answer:
    import cupy

    known: dict[str, Callable[..., Any]] = {
        "sort, one row": cupy.sort,
        "sort, many rows": lambda x: cupy.sort(x, axis=1),
        "running sum": cupy.cumsum,
        "transpose, f32": lambda x: cupy.ascontiguousarray(x.T),
        "sum of all, f32": cupy.sum,
        "f32 to f32": cupy.matmul,
        "f64 to f64": cupy.matmul,
        "f16 to f16": cupy.matmul,
    }
    if name not in known:
        return {"error": "CuPy is not asked for that"}
    given = [cupy.asarray(x) for x in arguments]
    wait = cupy.cuda.Device().synchronize
    return {"seconds": timed(lambda: known[name](*given), wait, seconds), "by": "CuPy"}


def speed(file: str, scale: str, name: str, seconds: float) -> Answer:
    """The time and the memory of a program, by `jax.jit`."""
    import time

    import jax

    from jax_programs import jax_programs

    place = jax_device()
    program = next(x for x in jax_programs(Path(file), scale) if x.name == name)
    with jax.enable_x64(program.is_64_bit):
        tree = jax.tree.map(lambda x: jax.device_put(x, place), program.tree)
        start = time.perf_counter()
        compiled = jax.jit(program.function, keep_unused=True).lower(*tree).compile()
        compiling = time.perf_counter() - start
        memory = compiled.memory_analysis()
        last: list[Any] = []

        def run() -> None:
            last[:] = [compiled(*tree)]

        took = timed(run, lambda: jax.block_until_ready(last), seconds)
    needed = memory.temp_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "seconds": took,
        "compile_seconds": compiling,
        "memory_bytes": int(needed),
        "by": "jax.jit",
    }


REQUESTS: dict[str, Callable[..., Answer]] = {"device": device, "case": case, "speed": speed}
