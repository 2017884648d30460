"""Bundles: small thunks that run as one native function, in which their values are registers."""
