"""Tests of what portfolio is made of."""
