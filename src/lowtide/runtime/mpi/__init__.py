"""Runs of one program on the ranks of an MPI world, each of which is one device."""
