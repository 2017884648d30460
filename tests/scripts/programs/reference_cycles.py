"""Models that refer to themselves, collected at any time; a subclass of each in a global."""

import gc

import numpy as np

import lowtide


class Model:
    def __init__(self, size):
        self.me = self
        self.w = np.ones((size, size), np.float32)
        self.forward = lowtide.jit(lambda w, x: (w @ x, w * 2), output="jax")

    def __call__(self, x):
        y, self.w = self.forward(self.w, x)
        return float(y.sum())


for size in (4, 600, 600):
    model = Model(size)
    print([model(np.ones(size, np.float32)) for _ in range(3)])
    del model
    gc.collect()
survivor = Model(600)
print(survivor(np.ones(600, np.float32)))
