"""XLA's schedules of streams and thunks."""
