"""Statements in GoogleSQL with the clause of differential privacy, on every engine."""
