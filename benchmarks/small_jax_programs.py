"""Programs of little work in JAX: each takes thousands of steps of a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and the arguments that it is called with."""


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def runge_kutta() -> Program:
    """The Lorenz system by the classical method of four stages, fixed steps."""

    def slope(x: Any) -> Any:
        a, b, c = x
        return jnp.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])

    def step(x: Any, _: Any) -> Any:
        h = 0.01
        k1 = slope(x)
        k2 = slope(x + h / 2 * k1)
        k3 = slope(x + h / 2 * k2)
        k4 = slope(x + h * k3)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lambda x: lax.scan(step, x, None, length=1000)[0], (np.ones(3, np.float32),)


def adaptive_ode() -> Program:
    """A van der Pol oscillator by Heun's method, whose steps follow its error."""

    def slope(x: Any) -> Any:
        return jnp.stack([x[1], 5.0 * (1.0 - x[0] ** 2) * x[1] - x[0]])

    def step(state: Any) -> Any:
        t, h, x, taken = state
        k1 = slope(x)
        k2 = slope(x + h * k1)
        error = jnp.max(jnp.abs(h / 2 * (k2 - k1)))
        accepted = error < 1e-4
        x = jnp.where(accepted, x + h / 2 * (k1 + k2), x)
        t = jnp.where(accepted, t + h, t)
        factor = jnp.clip(0.9 * jnp.sqrt(1e-4 / (error + 1e-12)), 0.3, 2.0)
        return t, h * factor, x, taken + 1

    def run(x: Any) -> Any:
        start = (jnp.float32(0), jnp.float32(1e-3), x, 0)
        return lax.while_loop(lambda s: (s[0] < 3.0) & (s[3] < 5000), step, start)

    return run, (np.array([2, 0], np.float32),)


def stochastic() -> Program:
    """Geometric Brownian motion by Euler's method, with given noise."""

    def step(x: Any, noise: Any) -> Any:
        x = x + 0.05 * x * 0.001 + 0.2 * x * noise * 0.03
        return x, x

    return lambda x, w: lax.scan(step, x, w), (np.float32(1), _numbers(2000))


def kalman() -> Program:
    """A Kalman filter with a state of four numbers and measurements of two."""
    move = np.eye(4, dtype=np.float32) + np.eye(4, k=2, dtype=np.float32) * 0.1
    look = np.eye(2, 4, dtype=np.float32)

    def step(state: Any, z: Any) -> Any:
        x, p = state
        x, p = move @ x, move @ p @ move.T + 0.01 * jnp.eye(4)
        s = look @ p @ look.T + 0.1 * jnp.eye(2)
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = jnp.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / det
        gain = p @ look.T @ inverse
        x = x + gain @ (z - look @ x)
        p = p - gain @ look @ p
        return (x, p), x

    start = (np.zeros(4, np.float32), np.eye(4, dtype=np.float32))
    return lambda s, z: lax.scan(step, s, z), (start, _numbers(300, 2))


def hamiltonian() -> Program:
    """Leapfrog steps of Hamiltonian Monte Carlo on a banana-shaped density."""

    def energy(x: Any) -> Any:
        return (x[0] ** 2) / 2 + (x[1] - x[0] ** 2) ** 2

    def step(state: Any, _: Any) -> Any:
        x, p = state
        p = p - 0.005 * jax.grad(energy)(x)
        x = x + 0.01 * p
        p = p - 0.005 * jax.grad(energy)(x)
        return (x, p), None

    return lambda s: lax.scan(step, s, None, length=1000)[0], ((_numbers(2), _numbers(2, seed=1)),)


def tridiagonal() -> Program:
    """A tridiagonal system by elimination: a scan forward, and one back."""

    def forward(state: Any, row: Any) -> Any:
        c0, d0 = state
        a, b, c, d = row
        c1 = c / (b - a * c0)
        d1 = (d - a * d0) / (b - a * c0)
        return (c1, d1), (c1, d1)

    def back(x: Any, row: Any) -> Any:
        x = row[1] - row[0] * x
        return x, x

    def run(a: Any, b: Any, c: Any, d: Any) -> Any:
        zero = jnp.float32(0)
        _, rows = lax.scan(forward, (zero, zero), (a, b, c, d))
        return lax.scan(back, zero, rows, reverse=True)[1]

    wide = _numbers(1000, seed=2) + np.float32(8)
    return run, (_numbers(1000), wide, _numbers(1000, seed=1), _numbers(1000, seed=3))


def rigid_bodies() -> Program:
    """Four bodies that attract each other, by symplectic Euler steps."""

    def step(state: Any, _: Any) -> Any:
        x, v = state
        apart = x[:, None] - x[None]
        near = jnp.sum(apart**2, -1) + 0.1
        force = -jnp.sum(apart / (near * jnp.sqrt(near))[..., None], 1)
        v = v + 0.01 * force
        return (x + 0.01 * v, v), None

    start = (_numbers(4, 3), _numbers(4, 3, seed=1))
    return lambda s: lax.scan(step, s, None, length=300)[0], (start,)


def pendulum() -> Program:
    """A double pendulum in its angles."""

    def step(s: Any, _: Any) -> Any:
        a, b, p, q = s
        d = a - b
        low = 2.0 - jnp.cos(d) ** 2
        ap = (p - q * jnp.cos(d)) / low
        bq = (2 * q - p * jnp.cos(d)) / low
        c = ap * bq * jnp.sin(d)
        h = 0.01
        return jnp.stack([a + h * ap, b + h * bq, p - h * (c + 2 * jnp.sin(a)), q + h * c]), None

    return lambda s: lax.scan(step, s, None, length=500)[0], (_numbers(4),)


def environments() -> Program:
    """Eight poles on carts, which start anew when they fall."""

    def step(state: Any, push: Any) -> Any:
        x, v, a, w = state
        force = jnp.where(push > 0, 10.0, -10.0)
        sine, cosine = jnp.sin(a), jnp.cos(a)
        t = (force + 0.05 * w**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * t) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        state = (x + 0.02 * v, v + 0.02 * (t - 0.05 * turn * cosine), a + 0.02 * w, w + 0.02 * turn)
        down = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 0.2)
        return tuple([jnp.where(down, 0.0, y) for y in state]), down

    start = tuple([_numbers(8, seed=n) * np.float32(0.05) for n in range(4)])
    return lambda s, p: lax.scan(step, s, p), (start, _numbers(500, 8, seed=5))


def words() -> Program:
    """Words of a text: where they begin, and a hash of each."""

    def step(state: Any, letter: Any) -> Any:
        hashed, count = state
        is_space = letter == 32
        hashed = jnp.where(is_space, 0, (hashed * 31 + letter) % 65521)
        return (hashed, count + is_space.astype(jnp.int32)), hashed

    text = np.random.default_rng(0).integers(32, 60, 3000).astype(np.int32)
    return lambda t: lax.scan(step, (jnp.int32(0), jnp.int32(0)), t), (text,)


def greatest_divisor() -> Program:
    """Euclid's algorithm on pairs of numbers."""

    def one(a: Any, b: Any) -> Any:
        return lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]

    def step(total: Any, pair: Any) -> Any:
        return total + one(pair[0], pair[1]), None

    pairs = np.random.default_rng(1).integers(1, 1 << 20, (300, 2)).astype(np.int32)
    return lambda p: lax.scan(step, jnp.int32(0), p)[0], (pairs,)


def sorting_network() -> Program:
    """Rows of eight numbers through a network of comparators."""
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6)]
    pairs += [(0, 4), (3, 7), (1, 5), (2, 6), (1, 4), (3, 6), (2, 4), (3, 5), (3, 4)]

    def one(row: Any) -> Any:
        x = [row[i] for i in range(8)]
        for a, b in pairs:
            x[a], x[b] = jnp.minimum(x[a], x[b]), jnp.maximum(x[a], x[b])
        return jnp.stack(x)

    return lambda x: lax.map(one, x), (_numbers(500, 8),)


def biquad() -> Program:
    """A filter of second order on a signal."""

    def step(state: Any, x: Any) -> Any:
        a, b = state
        y = 0.2 * x + a
        return (0.3 * x - 0.5 * y + b, 0.2 * x - 0.1 * y), y

    zero = np.float32(0)
    return lambda x: lax.scan(step, (zero, zero), x), (_numbers(4000),)


def adaptive_filter() -> Program:
    """A filter of 16 taps that learns by least mean squares."""

    def step(state: Any, now: Any) -> Any:
        taps, past = state
        x, wanted = now
        past = jnp.concatenate([x[None], past[:-1]])
        error = wanted - taps @ past
        return (taps + 0.01 * error * past, past), error

    start = (np.zeros(16, np.float32), np.zeros(16, np.float32))
    return lambda s, x, y: lax.scan(step, s, (x, y)), (
        start,
        _numbers(1000),
        _numbers(1000, seed=1),
    )


def roots() -> Program:
    """Newton's method from many starts, each until it settles."""

    def one(x: Any) -> Any:
        def step(s: Any) -> Any:
            x, n = s
            return x - (x**3 - 2 * x - 5) / (3 * x**2 - 2), n + 1

        return lax.while_loop(
            lambda s: (jnp.abs(s[0] ** 3 - 2 * s[0] - 5) > 1e-4) & (s[1] < 50), step, (x, 0)
        )[0]

    return lambda x: lax.map(one, x), (np.linspace(1, 10, 200, dtype=np.float32),)


def interpolation() -> Program:
    """Values of a table at points, each found by halving."""

    def one(table: Any, x: Any) -> Any:
        def step(_: int, s: Any) -> Any:
            low, high = s
            middle = (low + high) // 2
            right = table[middle] <= x
            return jnp.where(right, middle, low), jnp.where(right, high, middle)

        low, high = lax.fori_loop(0, 8, step, (jnp.int32(0), jnp.int32(199)))
        return low + (x - table[low]) / (table[high] - table[low])

    table = np.linspace(0, 1, 200, dtype=np.float32)
    points = np.random.default_rng(0).random(400).astype(np.float32)
    return lambda t, x: lax.map(lambda y: one(t, y), x), (table, points)


def random_walk() -> Program:
    """A walk whose numbers come from a linear congruence."""

    def step(_: int, s: Any) -> Any:
        seed, x, far = s
        seed = seed * np.uint32(1664525) + np.uint32(1013904223)
        x = x + jnp.where(seed >> np.uint32(31) == 1, 1, -1)
        return seed, x, jnp.maximum(far, jnp.abs(x))

    zero = np.int32(0)
    return lambda s: lax.fori_loop(0, 5000, step, (s, zero, zero)), (np.uint32(7),)


def life() -> Program:
    """The game of life on a small torus."""

    def step(_: int, x: Any) -> Any:
        around = sum(
            [jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        )
        return ((around == 3) | ((x == 1) & (around == 2))).astype(jnp.int32)

    cells = np.random.default_rng(0).integers(0, 2, (8, 8)).astype(np.int32)
    return lambda x: lax.fori_loop(0, 200, step, x), (cells,)


def recurrent() -> Program:
    """A gated cell with a state of eight numbers."""

    def step(h: Any, x: Any) -> Any:
        gate = jax.nn.sigmoid(wide @ h + x)
        h = gate * h + (1 - gate) * jnp.tanh(narrow @ h + x)
        return h, h[0]

    wide, narrow = _numbers(8, 8) * np.float32(0.3), _numbers(8, 8, seed=1) * np.float32(0.3)
    return lambda h, x: lax.scan(step, h, x), (np.zeros(8, np.float32), _numbers(300, 8, seed=2))


def minimizer() -> Program:
    """Gradient descent with momentum on Rosenbrock's function, until it settles."""

    def value(x: Any) -> Any:
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    def step(s: Any) -> Any:
        x, v, n = s
        v = 0.9 * v - 2e-4 * jax.grad(value)(x)
        return x + v, v, n + 1

    def run(x: Any) -> Any:
        return lax.while_loop(
            lambda s: (value(s[0]) > 1e-3) & (s[2] < 3000), step, (x, jnp.zeros(2), 0)
        )

    return run, (np.array([-1.2, 1], np.float32),)


PROGRAMS: Final[Mapping[str, Callable[[], Program]]] = {
    x.__name__: x
    for x in (
        *(runge_kutta, adaptive_ode, stochastic, kalman, hamiltonian, tridiagonal, rigid_bodies),
        *(pendulum, environments, words, greatest_divisor, sorting_network, biquad),
        *(adaptive_filter, roots, interpolation, random_walk, life, recurrent, minimizer),
    )
}
"""By name what makes a program and its arguments."""
