"""A stream of real commits, month by month: who commits to which formula of Homebrew, as private running counts.

    python examples/homebrew_stream.py homebrew_commits.parquet build/continual.png [--max-groups 1]

The file has one row per commit: user, item (the formula), time. Protected is what one person adds in one month. Each
month is one batch; after it the running counts of all formulae above the threshold are published. The counts without
noise are drawn beside them here because this data is public.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb
import pyarrow.compute as pc

import dphist as dp
from dphist.continual.counter import STATE
from dphist.continual.state import State


def main() -> None:
    """Run the stream and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--max-groups", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    with duckdb.connect() as connection:
        records = connection.read_parquet(str(options.source))
        commits = records.project("\"user\", item, strftime(time, '%Y-%m') AS month").to_arrow_table()
        months = [row[0] for row in connection.sql("SELECT DISTINCT month FROM commits ORDER BY month").fetchall()]
        released: list[dict[str, int]] = []
        bounded: list[dict[str, int]] = []
        with tempfile.TemporaryDirectory() as folder:
            stream = dp.Continual.start(
                Path(folder) / "stream", unit="user", by="item", rounds=len(months),
                max_groups=options.max_groups, epsilon=options.epsilon, delta=options.delta,
            )  # fmt: skip
            print(stream)
            for month in months:
                batch = commits.filter(pc.equal(commits["month"], month))
                table = stream.add(batch, month).to_arrow()
                released.append(dict(zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True)))
                state = State.load(Path(folder) / "stream" / STATE)  # private! only because this data is public
                bounded.append(dict(zip(state.keys["key_1"].to_pylist(), state.counts.tolist(), strict=True)))
            threshold, noise = stream.mechanism.threshold, stream.mechanism.noise_std
        final = sorted(released[-1], key=lambda item: -released[-1][item])
        shown = final[:4] + final[len(final) // 2 : len(final) // 2 + 1] + final[-1:]
    print(
        f"\n{len(months)} months, {len(final)} formulae released after the last, {len(released[len(months) // 2])} half way"
    )
    draw(options.picture, months, released, bounded, shown, threshold, noise)


def draw(
    path: Path,
    months: list[str],
    released: list[dict[str, int]],
    bounded: list[dict[str, int]],
    shown: list[str],
    threshold: int,
    noise: float,
) -> None:
    """Running counts as released, the same without noise beside them, and how many groups are out."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    at = range(len(months))
    for item in shown:
        values = [counts.get(item) for counts in released]
        (line,) = above.plot(at, [float("nan") if v is None else v for v in values], linewidth=1.6, label=item)
        truth = [counts.get(item, 0) for counts in bounded]
        above.plot(at, truth, linewidth=0.9, linestyle=":", color=line.get_color())
    above.axhline(threshold, color="grey", linewidth=0.8)
    above.annotate(f"threshold {threshold}", (0, threshold), xytext=(0, 3), textcoords="offset points", fontsize=8)
    above.set_ylabel("people × months")
    title = (
        f"Private running counts of Homebrew formulae by month (noise std {noise:.1f} per node); dotted: without noise"
    )
    above.set_title(title, fontsize=10)
    above.legend(fontsize=8, frameon=False)
    below.plot(at, [len(counts) for counts in released], color="black", linewidth=1.2)
    below.set_ylabel("formulae released")
    ticks = [i for i, month in enumerate(months) if month.endswith("-01")][::2]
    below.set_xticks(ticks, [months[i][:4] for i in ticks])
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
