"""A daemon thread that still computes when the script ends."""

import threading
import time

import numpy as np

import lowtide

square = lowtide.jit(lambda x: x @ x)
x = np.eye(300, dtype=np.float32)
started = threading.Event()


def forever():
    y = x
    while True:
        y = np.asarray(square(y))
        started.set()


threading.Thread(target=forever, daemon=True).start()
started.wait()
time.sleep(0.05)
print(float(np.asarray(square(x)).sum()))
