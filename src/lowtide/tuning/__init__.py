"""Choice of the fastest of several ways to run a kernel, measured once and kept.

It is off by default, since what it finds depends on the machine and on what else runs there.
"""
