"""A maximum-margin separator of two private point clouds: a user's own function of a private histogram.

    pip install dphist scikit-learn && python examples/separator.py

Two labelled clouds in the unit square are bucketed, made private with truncated Laplace noise, and given to scikit-learn's
linear support vector machine with the noisy counts as weights. The machine sees private data only, so it costs no further
budget. What holds for its answer (Theorem 6 of [BCDP22], drop-and-move distortion): it is exactly what the same machine answers
on some data set in which at most buckets * q records were dropped and every other record was moved by at most beta.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from dphist.mechanisms import TruncatedLaplace
from dphist.planning.flexible import Grid, count_rows, sanitise

ERROR, EPSILON, DELTA, PEOPLE = 0.05, 1.0, 1e-6, 200_000


def clouds(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points on both sides of x + y = 1 with a gap between them, and their labels."""
    random = np.random.default_rng(seed)
    points = random.uniform(0, 1, (PEOPLE, 2))
    side = points.sum(axis=1) - 1
    kept = np.abs(side) > 0.3
    return points[kept], (side[kept] > 0).astype(np.int64)


def main(seed: int = 1) -> tuple[float, float]:
    """Print the true and the private separator; return the angle between them in degrees and the private accuracy."""
    from sklearn.svm import SVC

    points, labels = clouds(seed)
    grid = Grid((0.0, 0.0), (1.0, 1.0), ERROR)
    mechanism = TruncatedLaplace.for_budget(EPSILON, DELTA)
    # the label is a third coordinate of the bar; each person has one record, so one bar changes by one
    rows, counts = count_rows(np.column_stack([labels, grid.index(points)]))
    private = sanitise(rows, counts, mechanism)
    centres, private_labels = grid.centre(private.values[:, 1:]), private.values[:, 0]
    found = SVC(kernel="linear", C=1e4).fit(
        centres, private_labels, sample_weight=private.counts / private.counts.max()
    )
    true = SVC(kernel="linear", C=1e4).fit(points[::200], labels[::200])
    directions = [model.coef_[0] / np.linalg.norm(model.coef_[0]) for model in (true, found)]
    angle = float(np.degrees(np.arccos(np.clip(directions[0] @ directions[1], -1, 1))))
    accuracy = float(found.score(points[::50], labels[::50]))
    most = 2 * grid.number * mechanism.q
    print(
        f"private separator: normal {directions[1].round(3)}, {angle:.1f} degrees from the one of a sample of true points"
    )
    print(f"it puts {accuracy:.2%} of the true points on their side")
    print(f"at most {most:,} records dropped of {len(points):,}, the others moved by at most {ERROR:g}")
    return angle, accuracy


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
