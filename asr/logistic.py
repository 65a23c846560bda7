"""Logistic regression, of a few kinds of evidence."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
STEPS = 100
LEAST = 1e-4  # probability: what is surer than that, either way, says no more


def probability(log_odds: float) -> float:
    """0 … 1."""
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, log_odds))))


def log_odds(chance: float) -> float:
    """Of a probability, which counts as LEAST … 1 - LEAST."""
    p = min(1 - LEAST, max(LEAST, chance))
    return math.log(p / (1 - p))


def logistic_regression(
    evidence: Doubles, right: Doubles, *, penalty: float = 1.0, least_spread: float = 0.1, shares: Doubles | None = None
) -> tuple[float, Doubles]:
    """Bias and weights (E,) by Newton's method (Hastie et al. 2009, section 4.4.1), with an L2 penalty on the weights.

    evidence: (N, E); right: (N,), 0 or 1. Evidence is brought to unit spread for the penalty; what hardly varies, less
    than least_spread, says little. shares: (N,) how much each counts; None is 1.
    """
    mean, spread = evidence.mean(axis=0), np.maximum(least_spread, evidence.std(axis=0))
    counts = np.ones(len(evidence)) if shares is None else shares
    x = np.concatenate([np.ones((len(evidence), 1)), (evidence - mean) / spread], axis=1)
    ridge = penalty * np.r_[1e-3, np.ones(x.shape[1] - 1)]  # hardly any on the bias: one class alone has no end to it
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (counts * (right - p)) - ridge * weights
        step = np.linalg.solve((x.T * (counts * p * (1 - p))) @ x + np.diag(ridge), gradient)
        # Newton's method may overshoot where all is told apart; a bounded step always comes nearer
        weights = weights + step * min(1.0, 5.0 / (np.abs(step).max() + 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    scaled = weights[1:] / spread
    return float(weights[0] - scaled @ mean), scaled
