"""dphist: counts and sums per group under differential privacy, without knowing the groups in advance."""

__version__ = "0.1.0"
