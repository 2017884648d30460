"""Tilings: which axes of a grid of devices split which dimensions of an array."""
