"""Sessions for `resident.py`: what a user types at a prompt, each in a process of its own.

A session is a generator; what it holds lives in its frame, and it yields where its memory may be
looked at. All that it made is gone once it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

Session = Callable[[], Iterator[None]]

LARGE: Final = 25_000_000
"""Floats in an array of 100 MB."""

MIDDLE: Final = 4_000_000
"""Floats in an array of 16 MB."""


def elementwise() -> Iterator[None]:
    """Ten eager operations, each on the same array of 100 MB."""
    x = jnp.ones((LARGE,), jnp.float32)
    operations = (jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.sqrt, jnp.abs, jnp.square)
    others = (lambda v: v + 1, lambda v: v * 2, lambda v: v - 3)
    for operation in (*operations, *others):
        y = operation(x)
        yield
    y.block_until_ready()


def chain() -> Iterator[None]:
    """A chain of eager operations, of which only the last value stays."""
    x = jnp.linspace(0.0, 1.0, LARGE)
    for _ in range(5):
        x = jnp.tanh(x) * 0.5 + jnp.sin(x)
        yield
    total = float(x.sum())
    assert np.isfinite(total)


def sparse() -> Iterator[None]:
    """Eager products of sparse matrices with dense ones."""
    from jax.experimental import sparse

    keys = jax.random.split(jax.random.key(0), 3)
    for rows in (200, 400, 600):
        dense = jnp.where(jax.random.uniform(keys[0], (rows, rows)) < 0.01, 1.0, 0.0)
        matrix = sparse.BCOO.fromdense(dense)
        right = jax.random.normal(keys[1], (rows, 64))
        product = matrix @ right
        transposed = matrix.T @ product
        yield
        total = (matrix * 2.0).sum() + transposed.sum()
        gram = (matrix @ matrix.T).todense()
        yield
        (total + gram.sum()).block_until_ready()


def _network(width: int) -> tuple[list[Any], Any, Any]:
    keys = jax.random.split(jax.random.key(1), 6)
    weights = [jax.random.normal(k, (width, width)) / width**0.5 for k in keys[:4]]
    return weights, jax.random.normal(keys[4], (512, width)), jax.random.normal(keys[5], (512, 1))


def _loss(weights: list[Any], x: Any, y: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean((x[:, :1] - y) ** 2)


def _step(state: tuple[Any, Any], x: Any, y: Any) -> tuple[Any, Any]:
    weights, speeds = state
    slopes = jax.grad(_loss)(weights, x, y)
    speeds = [0.9 * v + g for v, g in zip(speeds, slopes, strict=True)]
    return [w - 0.01 * v for w, v in zip(weights, speeds, strict=True)], speeds


def _training(donated: tuple[int, ...]) -> Iterator[None]:
    weights, x, y = _network(1024)
    state = weights, [jnp.zeros_like(w) for w in weights]
    step = jax.jit(_step, donate_argnums=donated)
    del weights
    for _ in range(20):
        state = step(state, x, y)
        yield
    jax.block_until_ready(state)


def training() -> Iterator[None]:
    """A training loop that does not donate its state."""
    yield from _training(())


def training_donated() -> Iterator[None]:
    """The same with donation."""
    yield from _training((0,))


def scan() -> Iterator[None]:
    """A scan that stacks what it sees, and its gradient."""

    def body(carry: Any, x: Any) -> tuple[Any, Any]:
        carry = jnp.tanh(carry + x)
        return carry, carry * 2

    def run(xs: Any) -> Any:
        last, all_ = jax.lax.scan(body, jnp.zeros(xs.shape[1]), xs)
        return last.sum() + all_.sum()

    xs = jnp.ones((200, 50_000))
    value, slope = jax.jit(run)(xs), jax.jit(jax.grad(run))(xs)
    yield
    jax.block_until_ready((value, slope))


def many_programs() -> Iterator[None]:
    """Forty programs, each called a few times on 4 MB."""
    x = jnp.ones((1000, 1000))
    for number in range(40):
        program = jax.jit(lambda v, n=number: jnp.sin(v * n) @ v[:, : n + 1] + n)
        for _ in range(3):
            y = program(x)
        yield
        y.block_until_ready()


def many_shapes() -> Iterator[None]:
    """One program with forty shapes."""
    program = jax.jit(lambda v: jnp.cumsum(jnp.exp(-v * v)).mean())
    total = 0.0
    for number in range(40):
        total += float(program(jnp.ones(50_000 * (number + 1))))
        yield


def growing() -> Iterator[None]:
    """Arrays of twice the size each time, up to 128 MB."""
    nbytes = 1 << 20
    while nbytes <= 1 << 27:
        x = jnp.ones(nbytes // 4)
        y = (x + 1) * jnp.flip(x)
        yield
        y.block_until_ready()
        nbytes *= 2


def vmap_grad() -> Iterator[None]:
    """Gradients for each example, and a Hessian."""
    weights, x, y = _network(128)
    slopes = jax.jit(jax.vmap(jax.grad(_loss), (None, 0, 0)))(weights, x[:, None], y[:, None])
    yield
    norms = [jnp.linalg.norm(g.reshape(512, -1), axis=1) for g in slopes]
    yield
    bend = jax.hessian(lambda v: jnp.sum(jnp.tanh(v) ** 3))(jnp.ones(1500))
    yield
    jax.block_until_ready((norms, bend))


def random() -> Iterator[None]:
    """Random numbers of several kinds."""
    keys = jax.random.split(jax.random.key(2), 5)
    for key in keys:
        a = jax.random.normal(key, (MIDDLE,))
        b = jax.random.uniform(key, (MIDDLE,))
        c = jax.random.permutation(key, MIDDLE // 4)
        d = jax.random.categorical(key, a.reshape(-1, 10))
        yield
        jax.block_until_ready((a, b, c, d))


def round_trips() -> Iterator[None]:
    """Arrays that come from the host, are changed, and go back."""
    host = np.ones(MIDDLE, np.float32)
    for _ in range(10):
        y = jnp.asarray(host) * 1.5
        host = np.asarray(y) - 0.5
        yield
        np.array(y)


def device_put() -> Iterator[None]:
    """Large arrays of the host on the device, one after the other, then all at once."""
    for number in range(4):
        x = jax.device_put(np.full(LARGE, number, np.float32))
        yield
    xs = [jax.device_put(np.full(MIDDLE, n, np.float32)) for n in range(8)]
    yield
    jax.block_until_ready((x, xs))


def callbacks() -> Iterator[None]:
    """Functions of Python within programs."""

    def twice(v: Any) -> Any:
        return np.asarray(v) * 2

    kind = jax.ShapeDtypeStruct((MIDDLE,), jnp.float32)
    program = jax.jit(lambda v: jax.pure_callback(twice, kind, v + 1) + v)
    x = jnp.ones(MIDDLE)
    for _ in range(6):
        x = program(x) / 3
        yield
    x.block_until_ready()


def linalg() -> Iterator[None]:
    """Factors and solutions."""
    a = jax.random.normal(jax.random.key(3), (700, 700))
    square = a @ a.T + 700 * jnp.eye(700)
    for _ in range(2):
        q, r = jnp.linalg.qr(a)
        yield
        lower = jnp.linalg.cholesky(square)
        yield
        x = jnp.linalg.solve(square, a)
        yield
        values, vectors = jnp.linalg.eigh(square)
        yield
        jax.block_until_ready((q, r, lower, x, values, vectors))


def fft() -> Iterator[None]:
    """Transforms of one, two and three dimensions."""
    x = jax.random.normal(jax.random.key(4), (MIDDLE,))
    for sizes in ((MIDDLE,), (2000, 2000), (100, 200, 200)):
        y = jnp.fft.fftn(x.reshape(sizes))
        yield
        z = jnp.fft.ifftn(y * 2).real
        yield
        z.block_until_ready()


def sort() -> Iterator[None]:
    """Orders, ranks and the largest."""
    x = jax.random.normal(jax.random.key(5), (MIDDLE // 2,))
    for _ in range(2):
        ordered = jnp.sort(x)
        yield
        ranks = jnp.argsort(x)
        yield
        top, places = jax.lax.top_k(x.reshape(100, -1), 50)
        middle = jnp.median(x)
        yield
        jax.block_until_ready((ordered, ranks, top, places, middle))


def convolutions() -> Iterator[None]:
    """A small network of convolutions, trained for some steps."""
    keys = jax.random.split(jax.random.key(6), 4)
    kernels = [
        jax.random.normal(keys[0], (3, 3, 3, 32)) * 0.1,
        jax.random.normal(keys[1], (3, 3, 32, 32)) * 0.1,
        jax.random.normal(keys[2], (3, 3, 32, 64)) * 0.1,
    ]
    images = jax.random.normal(keys[3], (16, 64, 64, 3))

    def loss(kernels: list[Any], x: Any) -> Any:
        for kernel in kernels:
            x = jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        return jnp.mean(x**2)

    @jax.jit
    def step(kernels: list[Any], x: Any) -> list[Any]:
        return [k - 0.1 * g for k, g in zip(kernels, jax.grad(loss)(kernels, x), strict=True)]

    for _ in range(4):
        kernels = step(kernels, images)
        yield
    jax.block_until_ready(kernels)


def while_loops() -> Iterator[None]:
    """Loops that run until something holds."""

    @jax.jit
    def settle(x: Any) -> Any:
        def go_on(state: tuple[Any, Any]) -> Any:
            return state[0] < 30

        def body(state: tuple[Any, Any]) -> tuple[Any, Any]:
            return state[0] + 1, jnp.cos(state[1]) + jnp.roll(state[1], 1) * 0.1

        return jax.lax.while_loop(go_on, body, (0, x))[1]

    for size in (MIDDLE // 4, MIDDLE // 2, MIDDLE):
        x = settle(jnp.ones(size))
        yield
        x.block_until_ready()


def dtypes() -> Iterator[None]:
    """The same steps in many types."""
    whole = ("int8", "uint8", "int16", "int32", "uint32", "bool")
    for name in (*whole, "float16", "bfloat16", "float32", "complex64"):
        x = jnp.ones(MIDDLE, name)
        y = x.astype(jnp.float32).sum() + (x == x).sum()
        z = x + x if name != "bool" else x | x
        yield
        jax.block_until_ready((y, z))


def deletes() -> Iterator[None]:
    """Arrays that die in odd orders, some by `delete`."""
    order = np.random.default_rng(7)
    kept: list[Any] = []
    for number in range(60):
        kept.append(jnp.full(MIDDLE // 2 + 1000 * (number % 7), float(number)) + 1)
        if len(kept) > 6:
            gone = kept.pop(int(order.integers(len(kept))))
            if number % 3 == 0:
                gone.delete()
        yield
    jax.block_until_ready(kept)


def dlpack() -> Iterator[None]:
    """Arrays that NumPy and JAX hand to each other without a copy."""
    for _ in range(6):
        x = jnp.arange(MIDDLE, dtype=jnp.float32) * 2
        view = np.from_dlpack(x)
        back = jax.dlpack.from_dlpack(np.array(view))
        yield
        (back + x).block_until_ready()


def several_devices() -> Iterator[None]:
    """Sharded arrays on four devices."""
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, P("data"))
    x = jax.device_put(np.ones((4096, 1024), np.float32), rows)
    weights = jax.device_put(np.ones((1024, 512), np.float32), NamedSharding(mesh, P()))
    program = jax.jit(lambda v, w: jnp.tanh(v @ w).sum(0))
    for _ in range(5):
        total = program(x, weights)
        x = x * 0.5 + 1
        yield
    jax.block_until_ready((x, total))


SESSIONS: Final[tuple[Session, ...]] = (
    *(elementwise, chain, sparse, training, training_donated, scan, many_programs, many_shapes),
    *(growing, vmap_grad, random, round_trips, device_put, callbacks, linalg, fft, sort),
    *(convolutions, while_loops, dtypes, deletes, dlpack, several_devices),
)
