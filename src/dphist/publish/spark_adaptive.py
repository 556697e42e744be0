"""Placeholder."""
def run_on_pairs(work): raise NotImplementedError
