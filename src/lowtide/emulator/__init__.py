"""A device that is emulated on the host: threads one by one, races found."""
