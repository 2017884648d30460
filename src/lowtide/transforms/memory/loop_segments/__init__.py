"""A loop that is run again, segment by segment, for a later one."""
