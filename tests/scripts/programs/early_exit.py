"""The script ends in the middle of a loop, with a status, while large results are alive.

ends with: 3
"""

import sys

import numpy as np

import lowtide

big = np.ones((1024, 1024), np.float32)
grow = lowtide.jit(lambda x: (x * 2, x + 1), output="jax")
kept = []
for i in range(10):
    kept.append(grow(big * i))
    if i == 4:
        print("leaving at", i, float(kept[-1][0].sum()))
        sys.exit(3)
