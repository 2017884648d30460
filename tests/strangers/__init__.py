"""Files of strangers: mutated inputs for every reader, and the law that readers keep."""
