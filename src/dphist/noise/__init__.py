"""Noise that is secure, exact and fast: laws, samplers, tails and the error that sampling adds to δ."""

from __future__ import annotations

from dphist.noise.blocks import largest_value, require_headroom
from dphist.noise.entropy import Entropy, SystemEntropy
from dphist.noise.exact import add_exactly, sample_exactly, toss
from dphist.noise.exponential import exponential_top_k
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.noise.sampling import delta_surcharge, sample, sampler_error
from dphist.noise.tails import log_cdf, log_max_tail, log_pmf, log_sum_tail, log_tail

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Entropy",
    "Law",
    "RoundedGaussian",
    "SystemEntropy",
    "TruncatedDiscreteLaplace",
    "add_exactly",
    "delta_surcharge",
    "exponential_top_k",
    "largest_value",
    "log_cdf",
    "log_max_tail",
    "log_pmf",
    "log_sum_tail",
    "log_tail",
    "require_headroom",
    "sample",
    "sample_exactly",
    "sampler_error",
    "toss",
]
