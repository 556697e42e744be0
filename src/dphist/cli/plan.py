"""`dphist plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import dphist
from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import say
from dphist.planning.options import PlanOptions


@options.spread(PlanOptions)
def command(
    asked: dict[str, Any],
    save: Annotated[
        Path | None,
        option("--save", "Write the plan as JSON, for a later release.", "Output", common=True, metavar="FILE"),
    ] = None,
    plot: options.Plot = None,
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose a mechanism, its noise and its threshold for a privacy budget. Touches no data.

    Example: dphist plan --epsilon 1 --delta 1e-8
    Example: dphist plan --epsilon 1 --delta 1e-8 --max-groups 10 --sum likes:0:1 --save plan.json
    Example: dphist plan --epsilon 1 --delta 1e-8 --keys country=AT,CH,DE
    """
    from dphist.explanations import in_short
    from dphist.files.outputs import check_outputs

    check_outputs(save, plot, inputs=[Path(name) for name in asked.get("keys", ())], overwrite=overwrite)
    if plot is not None:
        from dphist.show.plots import check_picture, plot_plan

        check_picture(plot)
    parsed = options.parse(asked)
    if "keys" in parsed:
        from dphist.run.public_keys import public_keys

        parsed["keys"] = public_keys(parsed["keys"]).num_rows
    plan = dphist.plan(**parsed)
    if as_json:
        say(plan.to_json())
    elif not quiet:
        say(f"{plan}\n\nThe theorem and its proof: dphist explain {in_short(plan.mechanism.theorem)}")
    written = []
    if save is not None:
        plan.save(save, overwrite=overwrite)
        written.append(f"\nPlan written to {save}")
    if plot is not None:
        plot_plan(plan, plot, overwrite=overwrite)
        written.append(f"\nPicture written to {plot}")
    if written and not quiet:
        say("\n".join(written), err=as_json)
