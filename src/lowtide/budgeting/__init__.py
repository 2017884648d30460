"""Budgets of memory for modules: the cheapest plan whose arena fits, and what none can beat."""
