"""What a run took, as one line of JSON for the benchmark that started it."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable


def report(run: Callable[[str], int], path: str) -> None:
    """Run on one file; imports are done by now and not counted."""
    begin, cpu = time.perf_counter(), time.process_time()
    groups = run(path)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": megabytes, "groups": groups}))
