"""Attacks on every guarantee of the product, and on broken copies of it that must be caught."""
