"""Tools with which users test their passes and rules: before and after as texts, and values."""
