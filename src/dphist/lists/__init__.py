"""Largest groups, sessions of ranked lists, streams of running counts."""
