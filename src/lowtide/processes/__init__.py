"""Other processes of Python that work for this one."""
