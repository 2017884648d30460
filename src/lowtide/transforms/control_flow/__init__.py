"""Loops, branches and calls: fewer of them, and less that they carry.

What changes the carries of a loop or the operands and results of branches works on computations
that one instruction calls; shared ones, and instructions with control edges, stay as they are.
No pass makes a loop carry more bytes than before, but for values of `SMALL` bytes and the results
of work that no iteration has to repeat. Nothing crosses an optimization barrier.
"""
