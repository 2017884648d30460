"""Particles of jax_md in a periodic box, 50 steps of constant energy with a list of neighbours."""

import jax
import jax.numpy as jnp
from jax_md import energy, simulate, space

BOX = 9.0
displacement, shift = space.periodic(BOX)
neighbours, potential = energy.lennard_jones_neighbor_list(
    displacement, BOX, sigma=1.0, epsilon=1.0, r_onset=1.6, r_cutoff=2.0, dr_threshold=0.4
)
begin, move = simulate.nve(potential, shift, 2e-3)


@jax.jit
def step(state, near):
    def once(_, carry):
        state, near = carry
        near = near.update(state.position)
        return move(state, neighbor=near), near

    state, near = jax.lax.fori_loop(0, 50, once, (state, near))
    return state, near, potential(state.position, neighbor=near)


def arguments():
    """Return the particles and their neighbours."""
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(7) * BOX / 7] * 3), -1).reshape(-1, 3)
    position = grid + 0.03 * jax.random.normal(jax.random.key(0), grid.shape)
    near = neighbours.allocate(position)
    return begin(jax.random.PRNGKey(1), position, kT=0.5, neighbor=near), near


def run(state, near):
    """Return the energy twice, and where one particle came to."""
    energies = []
    for _ in range(2):
        state, near, value = step(state, near)
        energies.append(float(value))
    return energies + [float(x) for x in state.position[17]]
