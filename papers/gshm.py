"""Reproduce [KKWZ24], "Exact privacy analysis of the Gaussian sparse histogram mechanism".

    python papers/gshm.py [--out build/papers] [--points 80]

Figure 1A, Figure 1B, the numbers of section 6 that need no data, and the trade-off curve of appendix A.3.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from output import Number, arguments, mark, progress, write_csv, write_numbers
from scipy.special import log_ndtr, ndtr, ndtri

from dphist.privacy import gaussian
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.search import smallest
from dphist.show.plots import draw_lines, new_figure, save_figure

Floats = NDArray[np.float64]

EPSILON, DELTA = 0.349, 1e-5
MAX_GROUPS = 51_914  # views of the 99th percentile user of the paper's data
NOISE_STD = 2228.0  # of the released data set
GAP = 16_176.0  # of scenario 2
LOW_THRESHOLD = 1
NAMED_NOISES = (2240.0, 2300.0, 2396.0, 2699.0)  # those section 6.1 speaks of


def gap_for(noise_std: float, analysis: gshm.Analysis) -> float:
    """The smallest gap at the paper's budget."""
    return gshm.smallest_gap(EPSILON, DELTA, max_groups=MAX_GROUPS, noise_std=noise_std, analysis=analysis)


def delta_at(epsilon: float, analysis: gshm.Analysis) -> float:
    """The delta of scenario 2."""
    return gshm.delta(epsilon, max_groups=MAX_GROUPS, noise_std=NOISE_STD, gap=GAP, analysis=analysis)


def ratio_at(epsilon: float) -> float:
    """delta of add-the-deltas over the exact one, scenario 2."""
    return delta_at(epsilon, "add-the-deltas") / delta_at(epsilon, "exact")


def figure_1a(folder: Path, points: int) -> None:
    """The smallest threshold against the noise. Every curve starts at the least noise it can be had for."""
    picture, table = folder / "gshm_figure_1a.png", folder / "gshm_figure_1a.csv"
    with progress("[KKWZ24] Figure 1A", picture, table):
        rows: list[tuple[str, float, float, float]] = []
        curves = []
        best = {
            analysis: gshm.best_pair(EPSILON, DELTA, max_groups=MAX_GROUPS, analysis=analysis)
            for analysis in (gshm.ANALYSES)
        }
        least = gshm.smallest_noise(EPSILON, DELTA, MAX_GROUPS)
        for analysis in gshm.ANALYSES:
            # add-the-deltas grows without bound towards the least noise, so points crowd there
            start = 1e-4 if analysis == "add-the-deltas" else 0.0
            excess = np.concatenate([[start], np.geomspace(2e-4, 2800 / least - 1, points - 1)])
            noises = [best[analysis][0], *NAMED_NOISES, *(float(least * (1 + x)) for x in excess)]
            found = sorted((noise, gap_for(noise, analysis)) for noise in noises)
            rows += [(analysis, noise, gap, gap + LOW_THRESHOLD) for noise, gap in found]
            curves.append((analysis, [noise for noise, _ in found], [gap + LOW_THRESHOLD for _, gap in found]))
        write_csv(table, ("analysis", "noise_std", "gap", "threshold"), rows)

        figure, axes = new_figure()
        labels = {"exact": "exact (Theorem 5.4)", "f-dp": "f-DP (Theorem 7.1)", "add-the-deltas": "add the deltas"}
        draw_lines(axes, [(labels[name], x, y) for name, x, y in curves])
        for i, analysis in enumerate(gshm.ANALYSES):
            if analysis != "f-dp":
                noise, gap = best[analysis]
                mark(axes, i, noise, gap + LOW_THRESHOLD)
                axes.annotate(
                    f"{gap + LOW_THRESHOLD:,.0f}",
                    (noise, gap + LOW_THRESHOLD),
                    xytext=(10, -6) if analysis == "exact" else (0, -17),
                    textcoords="offset points",
                    fontsize=9,
                    ha="left" if analysis == "exact" else "center",
                )
        axes.axvline(least, color="0.5", linestyle=":", linewidth=1)
        axes.annotate(
            f"least noise of any analysis: {least:,.2f}",
            (least, 17_350),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=8,
            color="0.35",
        )
        axes.set_xlim(2200, 2800)
        axes.set_ylim(13_700, 17_600)
        axes.set_xlabel("noise on a count (standard deviation σ)")
        axes.set_ylabel("smallest release threshold T = gap + 1")
        axes.set_title(f"(ε = {EPSILON}, δ = $10^{{-5}}$), one person in up to {MAX_GROUPS:,} groups", fontsize=10)
        axes.legend(fontsize=9, frameon=False, loc="lower right")
        save_figure(figure, picture, overwrite=True)


def figure_1b(folder: Path, points: int) -> None:
    """How much adding the deltas overstates delta, at fixed noise and gap."""
    picture, table = folder / "gshm_figure_1b.png", folder / "gshm_figure_1b.csv"
    with progress("[KKWZ24] Figure 1B", picture, table):
        anchors = (0.349, 0.4, 0.45)  # golden values
        epsilons = sorted({*anchors, *(float(e) for e in np.linspace(0.1, 0.504, points))})
        deltas = {analysis: [delta_at(e, analysis) for e in epsilons] for analysis in gshm.ANALYSES}
        added, f_dp = (
            [other / exact for other, exact in zip(deltas[name], deltas["exact"], strict=True)]
            for name in ("add-the-deltas", "f-dp")
        )
        write_csv(
            table,
            ("epsilon", "delta_exact", "delta_f_dp", "delta_add", "add_over_exact", "f_dp_over_exact"),
            zip(epsilons, *(deltas[analysis] for analysis in gshm.ANALYSES), added, f_dp, strict=True),
        )

        figure, axes = new_figure()
        draw_lines(axes, [("add the deltas / exact", epsilons, added), ("f-DP / exact", epsilons, f_dp)])
        for exponent in (-7, -6, -5):
            epsilon = epsilon_where(10.0**exponent)
            mark(axes, 0, epsilon, ratio_at(epsilon))
            axes.annotate(
                f"δ = $10^{{{exponent}}}$\n{ratio_at(epsilon):.4f}",
                (epsilon, ratio_at(epsilon)),
                xytext=(-8, 12),
                textcoords="offset points",
                fontsize=9,
                ha="right",
            )
        mark(axes, 0, 0.504, ratio_at(0.504))
        axes.annotate(
            f"δ = {delta_at(0.504, 'exact'):.3g}\n{ratio_at(0.504):.4f}",
            (0.504, ratio_at(0.504)),
            xytext=(-10, -12),
            textcoords="offset points",
            fontsize=9,
            ha="right",
        )
        axes.set_xlabel("ε")
        axes.set_ylabel("δ of the analysis / exact δ")
        axes.set_title(f"σ = {NOISE_STD:g}, gap {GAP:,.0f}, one person in up to {MAX_GROUPS:,} groups", fontsize=10)
        axes.legend(fontsize=9, frameon=False, loc="upper left")
        save_figure(figure, picture, overwrite=True)


def epsilon_where(delta: float) -> float:
    """The epsilon at which the exact delta of scenario 2 is this one."""
    return smallest(lambda epsilon: delta_at(epsilon, "exact"), delta, start=0.4, low=0.0, high=0.51)


def noise_where(excess: float) -> float:
    """The noise from which on the gap of add-the-deltas is at most (1 + excess) times the exact one."""
    return smallest(
        lambda noise: gap_for(noise, "add-the-deltas") / gap_for(noise, "exact") - 1,
        excess,
        start=2400.0,
        low=2240.0,
        high=4000.0,
        tolerance=1e-9,
    )


def section_6(folder: Path) -> None:
    """Every number of section 6 that needs no data, and the rest named as such."""
    table = folder / "gshm_section_6.csv"
    with progress("[KKWZ24] section 6", table, table.with_suffix(".md")):
        write_numbers(table, [*scenario_1(), *scenario_2(), f_dp_example()])


def scenario_1() -> list[Number]:
    """Section 6 and 6.1: thresholds at a fixed budget."""
    mu = math.sqrt(MAX_GROUPS) / NOISE_STD
    pure = NOISE_STD * gaussian.quantile_for_infinity(DELTA, MAX_GROUPS) + LOW_THRESHOLD
    least, gap = gshm.best_pair(EPSILON, DELTA, max_groups=MAX_GROUPS)
    one, tenth = noise_where(0.01), noise_where(0.001)
    return [
        Number(
            "§6",
            "ε of the Gaussian mechanism, σ = 2228, δ = 1e-5",
            0.349,
            smallest(lambda e: float(gaussian.delta_gaussian(mu, e)), DELTA, start=EPSILON, low=0.0, high=1.0),
            ".6f",
            "printed to three digits",
        ),
        Number(
            "§6",
            "δ of the same at ε = 0.349",
            1e-5,
            float(gaussian.delta_gaussian(mu, EPSILON)),
            ".5e",
            "so at ε = 0.349 exactly, σ = 2228 just misses 1e-5",
        ),
        Number("§6.1", "least σ at (0.349, 1e-5)", 2228, least, ".2f", "where the exact curve begins"),
        Number("§6.1", "T at σ = 2228 from δ_inf = 1e-5 alone", 13948, pure, ".2f", "what the paper prints"),
        Number(
            "§6.1",
            "T at the least σ that is feasible",
            13948,
            gap + LOW_THRESHOLD,
            ".2f",
            "gap 13950.05; the paper takes the infeasible σ = 2228",
        ),
        Number(
            "§6.1, note 6",
            "chance that an empty row passes T = 13948",
            1e-10,
            float(ndtr(-13948 / NOISE_STD)),
            ".1e",
            "the paper says roughly",
        ),
        Number(
            "§6.1, note 7",
            "gap at σ = 2240, exact",
            14022,
            gap_for(2240, "exact"),
            ".2f",
            "the paper calls it τ*, but it is τ* − τ",
        ),
        Number("§6.1", "σ from which on adding costs at most 1 %", 2396, one, ".2f", "1.0003 % at 2396"),
        Number(
            "§6.1", "gap at σ = 2396, add the deltas", 15148, gap_for(2396, "add-the-deltas"), ".2f", "cut, not rounded"
        ),
        Number("§6.1", "gap at σ = 2396, exact", 14998, gap_for(2396, "exact"), ".2f", "cut, not rounded"),
        Number("§6.1", "σ from which on adding costs at most 0.1 %", 2699, tenth, ".2f", "rounded up"),
        Number(
            "§6.1",
            "gap there, add the deltas",
            16910,
            gap_for(tenth, "add-the-deltas"),
            ".2f",
            f"{gap_for(2699, 'add-the-deltas'):.2f} at σ = 2699; the paper says about",
        ),
        Number(
            "§6.1",
            "gap there, exact",
            16894,
            gap_for(tenth, "exact"),
            ".2f",
            f"{gap_for(2699, 'exact'):.2f} at σ = 2699; the paper says about",
        ),
        *(
            Number(
                "§6.1",
                f"rows lost by adding, σ = {noise}, in per cent",
                lost,
                None,
                ".1f",
                "needs the data; the threshold rises by "
                f"{(gap_for(noise, 'add-the-deltas') / gap_for(noise, 'exact') - 1) * 100:.2f} %",
            )
            for noise, lost in ((2400, 1.1), (2300, 2.8), (2240, 6.9))
        ),
    ]


def scenario_2() -> list[Number]:
    """Section 6.2: delta at fixed noise and gap."""
    peak = smallest(
        lambda e: float(gaussian.delta_gaussian(math.sqrt(MAX_GROUPS) / NOISE_STD, e)),
        gshm.delta_infinity(GAP, MAX_GROUPS, NOISE_STD),
        start=0.504,
        low=0.1,
        high=1.0,
    )
    return [
        Number(
            "§6.2",
            "δ_inf at gap 16176",
            1e-8,
            gshm.delta_infinity(GAP, MAX_GROUPS, NOISE_STD),
            ".5e",
            "the exact δ never goes below it",
        ),
        Number(
            "§6.2",
            "δ_add/δ_exact at the end, ε = 0.504",
            2,
            ratio_at(0.504),
            ".4f",
            f"the exact δ there is {delta_at(0.504, 'exact'):.4g}, not yet 1e-8",
        ),
        Number("§6.2", "the same where it is largest", 2, ratio_at(peak), ".4f", f"at ε = {peak:.5f}"),
        *(
            Number(
                "§6.2",
                f"the same at δ_exact = {delta:g}",
                paper,
                ratio_at(epsilon_where(delta)),
                ".4f",
                f"at ε = {epsilon_where(delta):.4f}",
            )
            for delta, paper in ((1e-7, 1.1), (1e-6, 1.01), (1e-5, 1.001))
        ),
    ]


def f_dp_example() -> Number:
    """Section 7 says that f-DP may be looser without an example; at deltas of this size it is."""

    def delta(analysis: gshm.Analysis) -> float:
        return gshm.delta(0.02, max_groups=2, noise_std=5.0, gap=8.0, analysis=analysis)

    return Number(
        "§7",
        "δ_f-DP/δ_exact at K = 2, σ = 5, gap 8, ε = 0.02",
        None,
        delta("f-dp") / delta("exact"),
        ".4f",
        f"the exact δ is {delta('exact'):.3g}; at small δ, as above, the two agree",
    )


def tradeoff_gaussian(mu: float | Floats, alpha: Floats) -> Floats:
    """[DRS22] Section 2.2: the smallest false-negative rate of any test with false-positive rate alpha.

    Phi(Phi^-1(1 - alpha) - mu).
    """
    return np.asarray(ndtr(-ndtri(alpha) - mu))


def tradeoff(alpha: Floats, *, max_groups: int, noise_std: float, gap: float) -> Floats:
    """Appendix A.3: the smallest false-negative rate of any test of the output whose false-positive rate is alpha.

    The lowest over a = 0..max_groups of (1 - d) f(alpha/(1 - d)), d = 1 - Phi(gap/noise_std)^(max_groups - a), f the
    trade-off curve of a Gaussian mechanism with mu(a). Evaluated on a geometric grid of a (for pictures, not for proofs).
    """
    points = np.unique(np.round(np.concatenate([[0], np.geomspace(1, max_groups, 400)])).astype(np.int64))
    keep = np.exp((max_groups - points) * float(log_ndtr(gap / noise_std)))
    mu = np.sqrt(points) / noise_std
    scaled = np.minimum(alpha[..., None] / keep, 1.0)
    return np.asarray((keep * tradeoff_gaussian(mu, scaled)).min(axis=-1))


def trade_off(folder: Path, points: int) -> None:
    """Appendix A.3: the power of the best test that a person is in the data, against its false alarms.

    (epsilon, delta) allows a power of e^epsilon alpha + delta at false positives alpha. The curves lie so close to that
    line that the picture shows (power - e^epsilon alpha)/delta instead: at most 1 if the guarantee holds.
    """
    picture, table = folder / "gshm_trade_off.png", folder / "gshm_trade_off.csv"
    with progress("[KKWZ24] appendix A.3, trade-off curve", picture, table):
        noise_std, gap = gshm.best_pair(EPSILON, DELTA, max_groups=MAX_GROUPS)
        alpha = np.geomspace(1e-7, 1.0, 4 * points)
        f_dp = 1 - tradeoff(alpha, max_groups=MAX_GROUPS, noise_std=noise_std, gap=gap)
        noise_only = 1 - tradeoff_gaussian(math.sqrt(MAX_GROUPS) / noise_std, alpha)
        added = np.minimum(1.0, noise_only + gshm.delta_infinity(gap, MAX_GROUPS, noise_std))
        allowed = np.minimum(1.0, math.exp(EPSILON) * alpha + DELTA)
        powers = [[float(v) for v in values] for values in (f_dp, added, noise_only, allowed)]
        rates = [float(a) for a in alpha]
        write_csv(
            table,
            ("false_positives", "power_f_dp", "power_add_the_deltas", "power_noise_alone", "power_allowed"),
            zip(rates, *powers, strict=True),
        )

        figure, axes = new_figure()
        names = ("with the threshold, f-DP (appendix A.3)", "with the threshold, add the deltas", "the noise alone")
        shares = [[(p - math.exp(EPSILON) * a) / DELTA for a, p in zip(rates, power, strict=True)] for power in powers]
        draw_lines(axes, [(name, rates, share) for name, share in zip(names, shares, strict=False)])
        axes.axhline(1, color="0.5", linestyle=":", linewidth=1)
        axes.annotate("what (ε, δ) allows", (9.5e-3, 1.03), fontsize=8, color="0.35", ha="right")
        axes.set_xscale("log")
        axes.set_xlim(1e-7, 1e-2)
        axes.set_ylim(-0.5, 2.3)
        axes.set_xlabel("false positives α of a test for one person's presence")
        axes.set_ylabel("(power of the best test − $e^ε$ α) / δ")
        axes.set_title(
            f"Trade-off curve at σ = {noise_std:,.2f}, gap {gap:,.2f}, ε = {EPSILON}, δ = $10^{{-5}}$", fontsize=10
        )
        axes.legend(fontsize=9, frameon=False, loc="upper left")
        save_figure(figure, picture, overwrite=True)


def main() -> None:
    """All figures and tables of the paper."""
    options = arguments(__doc__ or "")
    figure_1a(options.out, options.points)
    figure_1b(options.out, options.points)
    section_6(options.out)
    trade_off(options.out, options.points)


if __name__ == "__main__":
    main()
