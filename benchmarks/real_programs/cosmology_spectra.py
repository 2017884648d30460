"""Angular power spectra of jax-cosmo, and how they change with two parameters."""

import jax
import jax.numpy as jnp
import jax_cosmo as jc


@jax.jit
def step(params, degrees):
    def spectra(params):
        cosmology = jc.Planck15(Omega_c=params[0], sigma8=params[1])
        bins = [jc.redshift.smail_nz(1.0, 2.0, x) for x in (0.7, 1.2)]
        probes = [jc.probes.WeakLensing(bins, sigma_e=0.26)]
        return jc.angular_cl.angular_cl(cosmology, degrees, probes)

    return spectra(params), jax.jacfwd(spectra)(params)


def arguments():
    """Return density and amplitude, and degrees of the spectra."""
    return jnp.array([0.25, 0.8]), jnp.logspace(1, 3, 20)


def run(params, degrees):
    """Return logarithms of some of the spectra, and some of the slopes by them."""
    spectra, slopes = step(params, degrees)
    change = slopes / spectra[..., None]
    return [float(x) for x in jnp.log(spectra[:, ::6]).ravel()] + [
        float(x) for x in change[0, ::6].ravel()
    ]
