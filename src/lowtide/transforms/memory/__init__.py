"""Other programs for the same values that hold less at once: run in parts, packed, recomputed.

Each of these passes takes time, or another rounding of sums, for less memory. By default only
`loop-residual-recompute` runs, and `split-large-instructions` where it saves much; the others run
where a budget or a user asks for them.
"""
