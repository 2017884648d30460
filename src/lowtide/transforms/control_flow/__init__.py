"""Loops, branches and calls: fewer of them, and less that they carry.

The carries of a loop and the operands and results of branches change only in computations that one
instruction calls. Shared ones, and instructions with control edges, stay as they are. No pass makes
a loop carry more bytes than before, but for values of `SMALL` bytes and the results of work that no
iteration has to repeat. Nothing crosses an optimization barrier.
"""
