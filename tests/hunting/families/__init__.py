"""The families of cases that are hunted: what each draws, and who judges it."""
