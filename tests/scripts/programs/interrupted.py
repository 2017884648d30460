"""Ctrl-C while the program computes: the loop ends, and results are still there."""

import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np

import lowtide


@lowtide.jit
def slow(x):
    return jax.lax.fori_loop(0, 300, lambda i, y: jnp.sin(y) + 1, x)


x = np.ones((64, 64), np.float32)
done = [np.asarray(slow(x))]
main = threading.main_thread().ident
try:
    threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    while True:
        slow(x)
except KeyboardInterrupt:
    print("stopped")
print(float(done[0].sum()), float(np.asarray(slow(x)).sum()))
