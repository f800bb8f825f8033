"""What the steps of the package's ladder of LayerNorms ask of memory, counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from course.kernels import norm
from warpsim import trace


class Counted(NamedTuple):
    """Bytes by those of the matrix, gamma and beta left out; sectors a request of x; wavefronts."""

    transfers: float
    sectors: float
    wavefronts: int


def of_norm(
    name: str, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, activation: str | None = None
) -> Counted:
    """Trace a step of the ladder on a matrix, for an H200.

    Parameters
    ----------
    name : str
        Of `norm.LADDER`.
    x : ndarray of float32, shape (rows, columns)
    gamma, beta : ndarray of float32, shape (columns,)
    activation : str, optional
        What is fused behind it.
    """
    form = norm.Variant(gamma=False, beta=False, activation=activation)
    kernel, blocks, threads, _ = norm.LADDER[name].launch(*x.shape, form)
    report = trace(
        kernel, blocks, threads, x, gamma, beta, np.float32(1e-5), np.empty_like(x), gpu="H200"
    )
    lines = report.lines[(report.lines["space"] == "global") & (report.lines["op"] == "load")]
    of_x = lines[~lines["array"].isin(["gamma", "beta"])]
    loads, stores = report.total("global", "load"), report.total("global", "store")
    factors = 4 * (loads.lanes - of_x["lanes"].sum())
    return Counted(
        transfers=float(loads.bytes + stores.bytes - factors) / x.nbytes,
        sectors=float(of_x["sectors"].sum() / of_x["requests"].sum()),
        wavefronts=report.total("shared", "load").wavefronts,
    )
