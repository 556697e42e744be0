"""A stream of real commits, month by month: who commits to which formula of Homebrew, as private running counts.

    python examples/homebrew_stream.py homebrew_commits.parquet build/continual.png [--report build/continual.html]

The file has one row per commit: user, item (the formula), time. Protected is what one person adds in one month. Each
month is one batch; after it the running counts of all formulae above the threshold are published. The counts without
noise are drawn beside them here because this data is public.

The parameters follow a rule that uses nothing of the stream itself. The first twelve months are history: they are given
up, nothing is claimed for them, and they are not counted. Delta is 10^-6, the rounds are twenty years of months. A person
is counted in as many formulae a month as the median person of the first year had. Epsilon is the smallest whole number
whose threshold the largest formula of the first year, at that pace, would reach in ten years. (We wrote this rule when we
had seen that epsilon = 1 releases nothing here. With data that is not public such a second try costs budget too.)
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb
import pyarrow.compute as pc

import dphist as dp
from dphist.mechanisms.continual import calibrate
from dphist.run.continual import STATE
from dphist.run.stream import State

DELTA = 1e-6
HISTORY = 12
ROUNDS = 240


def main() -> None:
    """Run the stream and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    with duckdb.connect() as connection:
        records = connection.read_parquet(str(options.source))
        commits = records.project("\"user\", item, strftime(time, '%Y-%m') AS month").to_arrow_table()
        connection.register("commits", commits)
        months = [row[0] for row in connection.sql("SELECT DISTINCT month FROM commits ORDER BY month").fetchall()]
        history, months = months[:HISTORY], months[HISTORY:]
        max_groups, yearly = first_year(connection, history[-1])
        epsilon = next(e for e in range(1, 20) if calibrate(e, DELTA, ROUNDS, max_groups).threshold <= 10 * yearly)
        released: list[dict[str, int]] = []
        bounded: list[dict[str, int]] = []
        with tempfile.TemporaryDirectory() as folder:
            stream = dp.Continual.start(
                Path(folder) / "stream", unit="user", by="item", rounds=ROUNDS,
                max_groups=max_groups, epsilon=epsilon, delta=DELTA,
            )  # fmt: skip
            print(stream)
            for month in months:
                batch = commits.filter(pc.equal(commits["month"], month))
                table = stream.add(batch, month).to_arrow()
                released.append(dict(zip(table["item"].to_pylist(), table["count"].to_pylist(), strict=True)))
                state = State.load(Path(folder) / "stream" / STATE)  # private! only because this data is public
                bounded.append(dict(zip(state.keys["key_1"].to_pylist(), state.counts.tolist(), strict=True)))
                if options.report and month == months[-1]:
                    stream.show().report(options.report, overwrite=True)
            threshold, noise = stream.mechanism.threshold, stream.mechanism.noise_std
        final = sorted(released[-1], key=lambda item: -released[-1][item])
        shown = final[:4] + final[len(final) // 2 : len(final) // 2 + 1] + final[-1:]
    print(
        f"\n{len(months)} months, {len(final)} formulae released after the last, {len(released[len(months) // 2])} half way"
    )
    draw(options.picture, months, released, bounded, shown, threshold, noise)


def first_year(connection: duckdb.DuckDBPyConnection, last: str) -> tuple[int, int]:
    """(formulae of the median person in a month, people x months of the largest formula), of the history alone."""
    connection.execute("CREATE TEMP TABLE past AS SELECT DISTINCT * FROM commits WHERE month <= ?", [last])
    median = """SELECT CAST(MEDIAN(n) AS INTEGER) FROM (SELECT COUNT(*) AS n FROM past GROUP BY "user", month)"""
    (groups,) = connection.sql(median).fetchall()[0]
    place = """ROW_NUMBER() OVER (PARTITION BY "user", month ORDER BY hash("user", month, item)) AS place"""
    kept = f"SELECT item, COUNT(*) AS n FROM (SELECT *, {place} FROM past) WHERE place <= {groups} GROUP BY item"  # noqa: S608
    (largest,) = connection.sql(f"SELECT MAX(n) FROM ({kept})").fetchall()[0]  # noqa: S608
    return int(groups), int(largest)


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
