"""Programs that run on the threads of a CPU."""
