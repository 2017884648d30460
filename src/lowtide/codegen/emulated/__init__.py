"""Kernels of graphics processors as code of the host, for the emulated device."""
