"""From instructions to kernels: which of them run as one."""
