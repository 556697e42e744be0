"""Write what the golden cases give now: `python tests/golden/record.py [name ...]`; names may end with `*`.

Without names all cases that need no Spark are recorded and stored outputs without a case are removed; `--spark` adds
those of Spark.
"""

from __future__ import annotations

import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

from cases import CASES
from harness import OUTPUTS, run, text_of
from spark_cases import SPARK_CASES


def record(wanted: list[str]) -> None:
    """Record the cases with these names."""
    known = {**CASES, **SPARK_CASES}
    names = [name for name in known if any(fnmatch(name, pattern) for pattern in wanted)]
    OUTPUTS.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            text = text_of(run(known[name], Path(folder)))
        path = OUTPUTS / f"{name}.json"
        old = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(text, encoding="utf-8")
        print(f"{'new    ' if old is None else 'same   ' if old == text else 'CHANGED'} {name}")
    for path in OUTPUTS.glob("*.json"):
        if path.stem not in known:
            path.unlink()
            print(f"gone    {path.stem}")


if __name__ == "__main__":
    asked = [name for name in sys.argv[1:] if name != "--spark"]
    record(asked or [*CASES, *(SPARK_CASES if "--spark" in sys.argv else ())])
