"""`dphist demo`: a private table beside the true one, and its report. Nobody is in the data, so the truth may be shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dphist.cli.command import FILE, Option, command
from dphist.cli.options import OUTPUTS
from dphist.cli.output import Outputs, say
from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa

    from dphist.run.release import Release

REPORT: Final = Path("dphist-demo.html")
_SHOWN: Final = 12
_CALL: Final = "dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 --intervals 0.95"
_TRY: Final = """\
Now in that folder, for example:
  dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o out.parquet --report out.html
  dphist top-k events.parquet --unit user_id --by url --k 10 --epsilon 1 --delta 1e-8
  dphist stat median ages.parquet --column age --unit person --lower 0 --upper 120 --error 1 --epsilon 0.5"""


@command(
    Option(
        "--data",
        "Only write the tables that the examples of README and docs use into this folder.",
        "Output",
        common=True,
        metavar="DIRECTORY",
        type=FILE,
    ),
    OUTPUTS.only("report", "overwrite"),
    Option("--no-open", "Do not open the report in a browser.", "Output"),
)
def demo(data: Path | None, outputs: Outputs, no_open: bool) -> None:
    """Release a table that is made up, show it beside the truth and open the report. Needs no data and no network.

    Without --report it is dphist-demo.html in this folder, which is replaced.

    \b
    Examples:
      dphist demo
      dphist demo --data examples
    """
    if data is not None:
        if outputs.report is not None:
            raise InvalidParameter("--data or --report", "both", "with --data the tables are written and nothing else.")
        _write_tables(data, overwrite=outputs.overwrite)
        return
    import dphist
    from dphist.demo import events
    from dphist.files.outputs import check_outputs

    target = outputs.report or REPORT
    replace = outputs.overwrite or outputs.report is None
    check_outputs(target, overwrite=replace)
    table = events()
    say(
        "A web site's visits: who saw which page. We publish how many people saw each page, and protect all visits of a"
    )
    say(f"person. On your own data it is one command:\n\n$ {_CALL} --report {target}\n")
    release = dphist.release(table, unit="user_id", by="url", epsilon=1, delta=1e-8, intervals=0.95)
    say(_comparison(release, table))
    release.report(target, overwrite=replace)
    say(f"\nReport: {target.resolve()}")
    if not no_open and _on_desktop():
        _open(target)


def _write_tables(folder: Path, *, overwrite: bool) -> None:
    from dphist.demo import write_tables

    for path in write_tables(folder, overwrite=overwrite):
        say(str(path))
    say(f"\nNobody is behind any record: the tables are made up.\n{_TRY}")


def _comparison(release: Release, table: pa.Table) -> str:
    """Some released counts beside the true ones, from the largest to the smallest; then how many intervals cover the truth."""
    truth = table.group_by("url").aggregate([("user_id", "count_distinct")]).to_pydict()
    units = dict(zip(truth["url"], truth["user_id_count_distinct"], strict=True))
    rows = release.to_arrow().to_pylist()
    lines = ["  page                          released    true   error"]
    shown = {round((len(rows) - 1) * (i / (_SHOWN - 1)) ** 2) for i in range(_SHOWN)} if rows else ()
    for place in sorted(shown):
        url, count, error = rows[place]["url"], rows[place]["count"], rows[place]["count_std_error"]
        lines.append(f"  {url:<26}{count:>7,.0f} ± {error:<3,.0f}{units[url]:>7,}{count / units[url] - 1:>+8.0%}")
    covering = sum(row["count_low"] <= units[row["url"]] <= row["count_high"] for row in rows)
    return "\n".join(
        [
            *lines,
            "",
            f"{len(rows)} of {len(units)} pages are in the table; the others had too few visitors to be named safely.",
            f"{covering} of {len(rows)} intervals of 95 % cover the true count. We can look because this table is made up:",
            "of your own data nobody may see the column `true`.",
            "",
            f"Guarantee: {release.record.guarantee}",
        ]
    )


def _on_desktop() -> bool:
    """Whether a browser can open: there are a terminal and windows, and CI does not run this."""
    if not sys.stdout.isatty() or os.environ.get("CI"):
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(path: Path) -> None:
    import webbrowser

    webbrowser.open(path.resolve().as_uri())
