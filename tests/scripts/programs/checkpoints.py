"""Weights written to a file and read again between steps, by NumPy in two forms."""

import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import lowtide

step = lowtide.jit(lambda w, x: {"w": w["w"] + jnp.outer(x, x) * 0.1, "n": w["n"] + 1})
weights = {"w": np.zeros((5, 5), np.float32), "n": np.int32(0)}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "weights"
    for i in range(4):
        weights = step(weights, np.arange(5, dtype=np.float32) + i)
        np.save(path.with_suffix(".npy"), np.asarray(weights["w"]))
        weights = {"w": np.load(path.with_suffix(".npy"), mmap_mode="r"), "n": weights["n"]}
        np.savez(path.with_suffix(".npz"), **weights)
        with np.load(path.with_suffix(".npz")) as stored:
            weights = dict(stored)
print(int(weights["n"]), float(weights["w"].sum()))
