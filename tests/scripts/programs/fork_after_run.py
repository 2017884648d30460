"""Children forked after a run call the same executable, and exit in several ways."""

import os
import sys

import numpy as np

import lowtide

TEXT = """HloModule plus
ENTRY e {
  x = f32[512,512] parameter(0)
  y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[512,512] add(y, x)
}"""
run = lowtide.compile(lowtide.parse_hlo(TEXT))
x = np.eye(512, dtype=np.float32)
print(float(np.asarray(run(x)).sum()), flush=True)
for number in range(3):
    child = os.fork()
    if child == 0:
        total = float(np.asarray(run(x * number)).sum())
        print("child", number, total, flush=True)
        os._exit(0) if number == 0 else sys.exit(number)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
print(float(np.asarray(run(x)).sum()))
