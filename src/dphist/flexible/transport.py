"""The theta-lossy average Wasserstein distance [BCDP22, Definition 7]: the cheapest transport of mass 1 - theta."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dphist.errors import InvalidParameter
from dphist.flexible.masses import Floats, share, to_common_total, whole


def lossy_average_distance(
    first: Sequence[int | Fraction], second: Sequence[int | Fraction], distances: Floats, theta: float | Fraction = 0
) -> float:
    """The least expected distance when a share theta of the mass need not be moved; by linear programming, to about 1e-9.

    What is not moved costs nothing: the expectation is over a coupling that has the lost mass on the diagonal.
    """
    from scipy.optimize import linprog  # a fifth of the time every command takes to start, and used here only
    from scipy.sparse import csr_array, vstack

    loss = share("theta", theta)
    costs = np.asarray(distances, dtype=np.float64)
    rows, columns = len(first), len(second)
    if costs.shape != (rows, columns):
        raise InvalidParameter(f"a matrix of {rows} x {columns} distances", costs.shape)
    p, q, common = to_common_total(whole(first), whole(second))
    if loss == 1:
        return 0.0
    cells = np.arange(rows * columns)
    ones = np.ones(cells.size)
    per_row = csr_array((ones, (cells // columns, cells)))
    per_column = csr_array((ones, (cells % columns, cells)))
    limits = np.concatenate([p, q]).astype(np.float64) / common
    needed = csr_array(-ones.reshape(1, -1))
    found = linprog(  # type: ignore[call-overload]  # its stubs know no sparse matrix
        costs.ravel(),
        A_ub=vstack([per_row, per_column, needed]),
        b_ub=np.append(limits, -float(1 - loss)),
        method="highs",
    )
    return max(0.0, float(found.fun))
