"""Angular spectra of weak lensing in jax_cosmo, and their slope by the density of matter."""

import jax
import jax.numpy as jnp
import jax_cosmo as jc


def _spectra(density):
    cosmology = jc.Planck15(Omega_c=density)
    bins = [jc.redshift.smail_nz(1.0, 2.0, x, gals_per_arcmin2=5) for x in (0.6, 1.0)]
    probes = [jc.probes.WeakLensing(bins)]
    ell = jnp.logspace(1, 3, 12)
    return jnp.log10(jc.angular_cl.angular_cl(cosmology, ell, probes))


@jax.jit
def step(density):
    values, slopes = jax.jvp(_spectra, (density,), (jnp.float32(1),))
    return values, slopes


def arguments():
    """Return a density."""
    return (jnp.float32(0.26),)


def run(density):
    """Return the sum of the spectra of each pair, and of their slopes."""
    values, slopes = step(density)
    return [float(x) for x in (*values.sum(1), *slopes.sum(1))]
