"""Signals at chosen and at random moments: the exit code, one true sentence, nothing left behind, and a rerun that works."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("kill_commands.py")
TIMES = 60


def results(folder: Path, *words: str, limit: int) -> list[dict[str, Any]]:
    command = [sys.executable, str(SCRIPT), str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)  # who hangs is found out here
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def problems(result: dict[str, Any]) -> list[str]:
    """What is wrong with a command that got a signal, and with the same command after it."""
    found = []
    number = signal.Signals[result["signal"]]
    caught = number is not signal.SIGKILL
    told, again = " ".join(result["told"]), result["again"]
    before, after = result["before"], result["after"]
    spent = after["entries"] - before["entries"]
    new_round, new_query = after["round"] > before["round"], after["queries"] > before["queries"]
    if result["code"] not in (0, 128 + number if caught else -number):
        found.append(f"exit code {result['code']}")
    if result["code"] != 0 and caught:
        if len(result["told"]) != 1 or not told.startswith("dphist: "):
            found.append("not one sentence")
        if (f"ntry {result['last']}" in told) != bool(spent) or ("Nothing was charged" in told and spent):
            found.append("not true about the charge")
        if ("is in, as round" in told) != new_round:
            found.append("not true about the round")
        if ("stay spent" in told) != new_query:
            found.append("not true about the query")
        if ("is written" in told) != bool(result["written"]) and spent and "record" not in result["words"]:
            found.append("not true about the output")
    if caught and (result["private"] or result["partial"]):
        found.append("left something behind")
    if not (result["ledger"] and again["ledger"]) or spent > 1:
        found.append("the ledger")
    if after["round"] - before["round"] > 1 or after["queries"] - before["queries"] > 1:
        found.append("more than one round or query")
    if again["code"] != (2 if new_round else 0):
        found.append("a rerun that fails")
    if again["private"] or again["partial"]:
        found.append("not removed by the next start")
    return found


def table(found: list[dict[str, Any]]) -> str:
    """What was left behind, counted."""
    rows: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for result in found:
        row = rows[result["kind"], result["signal"]]
        spent = any(result["after"][name] > result["before"][name] for name in ("entries", "round", "queries"))
        row.update(
            {
                "runs": 1, "ended": result["code"] == 0, "killed": result["code"] != 0, "spent": spent and result["code"] != 0,
                "private": bool(result["private"]), "partial": bool(result["partial"]),
                "after": bool(result["again"]["private"] or result["again"]["partial"]), "wrong": bool(problems(result)),
            }
        )  # fmt: skip
    names = {
        "runs": "runs", "ended": "ended before", "killed": "killed", "spent": "spent by then",
        "private": "private directory left", "partial": "partial file left", "after": "left after a rerun",
        "wrong": "anything wrong",
    }  # fmt: skip
    head = f"{'':<22}" + "".join(f"{name:>24}" for name in names.values())
    lines = [
        f"{kind + ' ' + number:<22}" + "".join(f"{row[name]:>24}" for name in names)
        for (kind, number), row in rows.items()
    ]
    return "\n".join([head, *lines])


def check(found: list[dict[str, Any]]) -> None:
    wrong = [(problems(result), result) for result in found if problems(result)]
    assert not wrong, wrong[:3]


def test_a_signal_at_some_steps(tmp_path: Path) -> None:
    """A random fifth of them in every run."""
    found = results(tmp_path, "moments", limit=300)
    assert {result["signal"] for result in found} == {"SIGTERM", "SIGINT", "SIGHUP"}
    assert all(result["code"] > 128 for result in found), "each of them ends the command"
    check(found)


@pytest.mark.crash
def test_every_signal_at_every_step(tmp_path: Path) -> None:
    check(results(tmp_path, "all-moments", limit=900))


@pytest.mark.crash
def test_sixty_kills_of_every_command_with_every_signal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for kind in ("release", "sql", "ledger", "stream", "session"):
        (tmp_path / kind).mkdir()
        found += results(tmp_path / kind, "random", str(TIMES), "7", kind, limit=3600)
    with capsys.disabled():
        print(f"\n{table(found)}")
    check(found)
    assert all(row >= TIMES for row in Counter((one["kind"], one["signal"]) for one in found).values())
