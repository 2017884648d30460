"""Runs of one program on several devices of this process, which are threads that meet."""
