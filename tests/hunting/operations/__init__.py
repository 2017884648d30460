"""Families of operations that the hunter draws: a file each, with a table by opcode."""
