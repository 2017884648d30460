"""Packing problems by themselves: named strategies, simplifying, checking, comparing, drawing."""
