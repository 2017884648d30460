"""Batches from a generator that is left early, and whose clean-up runs."""

import jax.numpy as jnp
import numpy as np

import lowtide


def batches():
    number = 0
    try:
        while True:
            yield np.full((32, 4), number, np.float32)
            number += 1
    finally:
        print("closed after", number)


total = lowtide.jit(lambda acc, x: acc + jnp.sum(jnp.sqrt(x)))
acc = np.float32(0)
for batch in batches():
    acc = total(acc, batch)
    if acc > 2000:
        break
print(float(acc))
