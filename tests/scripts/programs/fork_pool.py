"""A pool of forked processes, which compile and call programs of their own."""

import multiprocessing

import numpy as np

import lowtide

TEXT = """HloModule scaled
ENTRY e {{
  x = f32[{n}] parameter(0)
  c = f32[] constant({n})
  b = f32[{n}] broadcast(c), dimensions={{}}
  ROOT r = f32[{n}] multiply(x, b)
}}"""


def work(n):
    run = lowtide.compile(lowtide.parse_hlo(TEXT.format(n=n)))
    return float(np.asarray(run(np.ones(n, np.float32))).sum())


if __name__ == "__main__":
    print(work(3))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [3, 4, 5, 6]))
