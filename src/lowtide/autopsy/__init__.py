"""Comparison of a plan of XLA's with our own plan of the same module: causes of lost memory."""
