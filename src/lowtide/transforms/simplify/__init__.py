"""Algebraic simplification: rules by family, one file each with a tuple `RULES`."""
