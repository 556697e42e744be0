"""Eight processes charge one data set and are killed at random; run as a script, prints what happened as JSON.

Every worker writes down, outside the ledger, each charge that returned: from then on noise may be drawn. It is the truth
that the ledger must not be below of. Modules are loaded once and workers forked, so that a kill costs nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from dphist.errors import BudgetExceeded
from dphist.ledger import Ledger
from dphist.privacy.composition import of_pure

WORKERS = 8
CHARGES_PER_KILL = 6
LINE = 5
COST = 2.0**-13


def charge_until_refused(address: str, truth: Path) -> None:
    cost = of_pure(COST, 0.0)
    handle = os.open(truth, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Ledger(address) as opened:
        while True:
            try:
                entry = opened.reserve("events", cost, unit="user", command="release", facts={"worker": os.getpid()})
            except BudgetExceeded:
                return
            os.write(handle, f"{entry.sequence:>{LINE - 1}}\n".encode())
            opened.commit("events", entry.sequence)


def begin(address: str, truth: Path) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            charge_until_refused(address, truth)
            code = 0
        finally:
            os._exit(code)
    return pid


def main(address: str, truth: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    running = [begin(address, truth) for _ in range(WORKERS)]
    killed = 0
    goal = 0
    for _ in range(kills):
        goal += rng.randrange(2 * LINE * CHARGES_PER_KILL)  # whatever the speed, they are in the middle of charging
        while not truth.exists() or truth.stat().st_size < goal:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.01))
        victim = running.pop(rng.randrange(WORKERS))
        os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        killed += os.WIFSIGNALED(status)
        running.append(begin(address, truth))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in running]
    print(json.dumps({"killed": killed, "codes": codes}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
