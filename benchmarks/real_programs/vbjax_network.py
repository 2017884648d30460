"""A network of neural masses with delays in vbjax, and the gradient of its coupling."""

import jax
import jax.numpy as jnp
import vbjax as vb

REGIONS, STEPS, DT = 32, 400, 0.1
_keys = jax.random.split(jax.random.key(3), 2)
_weights = jax.random.uniform(_keys[0], (REGIONS, REGIONS))
_lengths = 30.0 * jax.random.uniform(_keys[1], (REGIONS, REGIONS))
_delays = vb.make_delay_helper(_weights, _lengths, dt=DT, v_c=10.0)
_history = int(_delays.max_lag) + 1


def _network(past, x, t, p):
    scale, theta = p
    coupled = scale * vb.delay_apply(_delays, t, past)
    return vb.mpr_dfun(x, coupled, theta)


_, _loop = vb.make_sdde(DT, _history, _network, 0.02, adhoc=vb.mpr_r_positive)


@jax.jit
def step(scale, start, noise):
    def level(scale):
        buffer = jnp.concatenate([jnp.broadcast_to(start, (_history + 1, *start.shape)), noise])
        states, _ = _loop(buffer, (scale, vb.mpr_default_theta))
        return jnp.mean(states[:, 0])

    return jax.value_and_grad(level)(scale)


def arguments():
    """Return the coupling, a state of rates and potentials, and noise."""
    start = jnp.stack([jnp.full(REGIONS, 0.1), jnp.full(REGIONS, -2.0)])
    return jnp.float32(0.01), start, jax.random.normal(jax.random.key(1), (STEPS, 2, REGIONS))


def run(scale, start, noise):
    """Return the mean rate, and its slope."""
    return [float(x) for x in step(scale, start, noise)]
