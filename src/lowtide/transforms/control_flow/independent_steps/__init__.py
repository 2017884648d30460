"""Loops whose steps do not need one another, run many steps at a time."""
