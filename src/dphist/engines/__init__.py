"""Rows in, bounded counts per group out. Each engine has a folder; none is loaded unasked."""
