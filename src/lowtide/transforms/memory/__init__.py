"""Other programs for the same values that hold less at once: run in parts, packed, recomputed.

Each of these passes trades time, or the rounding of sums, for memory; none runs unless it is asked
for.
"""
