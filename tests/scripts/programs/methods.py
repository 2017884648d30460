"""A class whose methods are compiled, with the instance as a static argument."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

import lowtide


@dataclass(frozen=True)
class Pendulum:
    length: float
    damping: float = 0.1

    def force(self, state):
        angle, speed = state
        return jnp.stack([speed, -9.81 / self.length * jnp.sin(angle) - self.damping * speed])

    @partial(lowtide.jit, static_argnums=(0,), static_argnames=("steps",))
    def simulate(self, state, dt, steps=100):
        def step(s, _):
            a = self.force(s)
            b = self.force(s + dt * a)
            s = s + dt * (a + b) / 2
            return s, s[0]

        return jax.lax.scan(step, state, None, length=steps)


for length in (1.0, 2.0, 1.0):
    end, path = Pendulum(length).simulate(jnp.array([0.5, 0.0]), 0.01, steps=200)
    print([float(x) for x in end], float(path.min()))
