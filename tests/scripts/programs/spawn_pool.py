"""Processes that are started afresh, each with a function of its own."""

import multiprocessing

import numpy as np

import lowtide


def work(n):
    return float(lowtide.jit(lambda x: (x * n).sum())(np.arange(10, dtype=np.float32)))


if __name__ == "__main__":
    print(work(1))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [2, 3]))
