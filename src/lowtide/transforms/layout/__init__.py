"""Where the dimensions of arrays lie in memory."""
