"""How well the values fit, in a form that can be averaged over parts of a batch and over ranks."""

from __future__ import annotations

from torch import Tensor

from rlcb.algorithms.interface import Metrics


def fit_of_values(values: Tensor, returns: Tensor) -> Metrics:
    """First and second moments of returns and of errors."""
    errors = returns - values
    return {
        "return_mean": returns.mean(),
        "return_square": returns.square().mean(),
        "error_mean": errors.mean(),
        "error_square": errors.square().mean(),
    }


def explained_variance(metrics: dict[str, float]) -> float | None:
    """1 for perfect values, 0 for a constant, below 0 for worse; None where the returns do not vary."""
    variance = metrics["return_square"] - metrics["return_mean"] ** 2
    if variance <= 1e-12:
        return None
    return 1 - (metrics["error_square"] - metrics["error_mean"] ** 2) / variance
