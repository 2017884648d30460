"""Which of several ways to run a kernel is fastest, by measuring them; what was measured is kept.

It is off by default, since what it finds depends on the machine and on what else runs there.
"""
