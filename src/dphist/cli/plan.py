"""`dphist plan` and `dphist profile`, which touch no data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dphist
from dphist import checks
from dphist.cli import options
from dphist.cli.command import FILE, NUMBER, WHOLE, Option, command
from dphist.cli.options import OUTPUTS, PLOT, declared
from dphist.cli.output import Outputs, print_json, say
from dphist.errors import InvalidParameter
from dphist.planning.choices import PROFILED, WITHOUT_THRESHOLD
from dphist.planning.options import PlanOptions
from dphist.words import exactly, rounded_up

if TYPE_CHECKING:
    from dphist.mechanisms import GroupMechanism

_DIGITS = 6


@command(
    options.asked(*declared(PlanOptions)),
    Option("--save", "Write the plan as JSON, for a later release.", "Output", common=True, type=FILE),
    PLOT,
    OUTPUTS.only("overwrite", "quiet", "as_json"),
)
def plan(asked: dict[str, Any], save: Path | None, plot: Path | None, outputs: Outputs) -> None:
    """Choose a mechanism, its noise and its threshold for a privacy budget. Touches no data.

    \b
    Examples:
      dphist plan --epsilon 1 --delta 1e-8
      dphist plan --epsilon 1 --delta 1e-8 --max-groups 10 --sum likes:0:1 \\
        --save plan.json
      dphist plan --epsilon 1 --delta 1e-8 --keys country=AT,CH,DE
    """
    from dphist.explanations import in_short
    from dphist.files.outputs import check_outputs

    check_outputs(save, plot, inputs=[Path(name) for name in asked.get("keys", ())], overwrite=outputs.overwrite)
    if plot is not None:
        from dphist.show.plots import check_picture, plot_plan

        check_picture(plot)
    parsed = options.parse(asked)
    if "keys" in parsed:
        from dphist.run.public_keys import public_keys

        parsed["keys"] = public_keys(parsed["keys"]).num_rows
    chosen = dphist.plan(**parsed)
    if outputs.as_json:
        say(chosen.to_json())
    elif not outputs.quiet:
        say(f"{chosen}\n\nThe theorem and its proof: dphist explain {in_short(chosen.mechanism.theorem)}")
    written = []
    if save is not None:
        chosen.save(save, overwrite=outputs.overwrite)
        written.append(f"\nPlan written to {save}")
    if plot is not None:
        plot_plan(chosen, plot, overwrite=outputs.overwrite)
        written.append(f"\nPicture written to {plot}")
    if written and not outputs.quiet:
        say("\n".join(written), err=outputs.as_json)


@command(
    Option("--noise-std", "Standard deviation of all the noise on one count.", "Privacy", type=NUMBER, required=True),
    Option("--gap", "Threshold minus low threshold; gaussian has none.", "Privacy", type=NUMBER),
    Option("--max-groups", "The most groups one unit may be counted in.", "Privacy", type=WHOLE),
    Option(
        "--mechanism",
        "The mechanism; gaussian hides no group, as with a public list.",
        "Privacy",
        choices=PROFILED,
        default="sparse-gaussian",
    ),
    *declared(PlanOptions, "sparsity", "correlation", "analysis", "low_threshold"),
    Option("--epsilon", "Print delta at this epsilon. Repeatable.", "What to publish", type=NUMBER, multiple=True),
    Option("--delta", "Print the smallest epsilon for this delta.", "What to publish", type=NUMBER),
    PLOT,
    OUTPUTS.only("overwrite", "as_json"),
)
def profile(
    noise_std: float,
    gap: float | None,
    mechanism: str,
    epsilon: list[float],
    delta: float | None,
    plot: Path | None,
    outputs: Outputs,
    **parameters: Any,
) -> None:
    """Delta at epsilon, or epsilon at delta, of a mechanism that is already chosen. Touches no data.

    \b
    Examples:
      dphist profile --noise-std 16 --gap 98 --max-groups 10 --epsilon 0.5 \\
        --epsilon 1
      dphist profile --noise-std 16 --gap 98 --max-groups 10 --delta 1e-8
      dphist profile --mechanism gaussian --noise-std 16 --max-groups 10 \\
        --delta 1e-8
    """
    from dphist.mechanisms import epsilon_at
    from dphist.mechanisms.base import in_at_most
    from dphist.planning.describe import title
    from dphist.planning.profile import described

    if not epsilon and delta is None:
        raise InvalidParameter("--epsilon or --delta", "neither", "--epsilon may be repeated.")
    for value in epsilon:
        checks.check_not_negative("epsilon", value)
    if delta is not None:
        checks.check_delta(delta)
    chosen = described(mechanism, noise_std, gap, **parameters)
    listed = f"the groups are public, and {in_at_most(chosen.max_groups)}"  # their number does not matter
    assumption = listed if mechanism == WITHOUT_THRESHOLD else chosen.assumption
    points = [(value, chosen.delta(value)) for value in epsilon]
    if delta is not None:
        points.append((epsilon_at(chosen, delta), delta))
    if outputs.as_json:
        asked = {"gap": gap, "noise_std": noise_std}
        print_json({**_record(chosen, points), "asked_for": asked})
    else:
        say(f"Profile of {title(chosen)}, by {chosen.theorem}")
        threshold = "no threshold" if gap is None or chosen.gap is None else f"gap {_used(chosen.gap, gap)}"
        say(f"  {threshold}, noise std {_used(chosen.noise_std, noise_std)}\n")
        say(f"  {'epsilon':>12}  {'delta':>12}")
        for e, d in points:
            say(f"  {rounded_up(e, _DIGITS):>12}  {rounded_up(d, _DIGITS):>12}")
        say(f"\n  provided {assumption}.")
    if plot is not None:
        from dphist.show.plots import plot_profile

        plot_profile(chosen, title(chosen), [max(e, 1e-3) for e, _ in points], plot, overwrite=outputs.overwrite)
        say(f"\nPicture written to {plot}", err=outputs.as_json)


def _used(value: float, asked: float) -> str:
    """The value of a profile, beside the value of the call where a reader would see the difference."""
    if math.isclose(value, asked, rel_tol=1e-12):
        return exactly(asked)
    return f"{exactly(value)} (asked for: {exactly(asked)}, rounded down)"


def _record(chosen: GroupMechanism, points: list[tuple[float, float]]) -> dict[str, object]:
    names = ("analysis", "max_groups", "sparsity", "noise_std", "independent_std", "correlation", "gap")
    return {
        "mechanism": chosen.name,
        **{name: getattr(chosen, name) for name in (*names, "low_threshold", "threshold")},
        "delta_inf": chosen.delta_infinity(),
        "profile": [{"epsilon": e, "delta": d, "delta_gauss": chosen.delta_noise(e)} for e, d in points],
        "theorem": chosen.theorem,
    }
