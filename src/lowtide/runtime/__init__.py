"""Running programs: threads, arenas, arguments and results around the native thunk walker."""
