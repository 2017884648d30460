"""Programs of graphics processors: assembling, the file of a program, running it."""
