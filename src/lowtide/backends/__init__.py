"""Targets: `interface.py` is what the compiler asks of one, `build.py` what it does with one."""
