"""Choice of layouts: the order of the dimensions of arrays in memory."""
