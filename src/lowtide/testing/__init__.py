"""Tools for tests: checks of passes, random modules, tolerances.

`modules` needs Hypothesis, which the extra `test` installs; the rest does not.
"""
