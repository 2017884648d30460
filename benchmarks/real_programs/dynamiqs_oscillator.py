"""A damped oscillator of dynamiqs: the master equation of a driven cavity, with a gradient."""

import dynamiqs as dq
import jax
import jax.numpy as jnp

SIZE = 16


@jax.jit
def step(drive, loss, times):
    a = dq.destroy(SIZE)

    def photons(drive):
        energy = drive * (a + a.dag()) + 0.2 * a.dag() @ a.dag() @ a @ a
        found = dq.mesolve(
            energy,
            [jnp.sqrt(loss) * a],
            dq.fock_dm(SIZE, 0),
            times,
            exp_ops=[a.dag() @ a],
            method=dq.method.Tsit5(rtol=1e-5, atol=1e-5),
            progress_meter=False,
        )
        return found.expects[0].real

    def last(drive):
        return photons(drive)[-1]

    return photons(drive), jax.grad(last)(drive)


def arguments():
    """Return the drive, the rate of loss, and times."""
    return jnp.float32(0.7), jnp.float32(0.3), jnp.linspace(0.0, 4.0, 21)


def run(drive, loss, times):
    """Return numbers of photons, and the slope of the last."""
    photons, slope = step(drive, loss, times)
    return [float(x) for x in photons[5::5]] + [float(slope)]
