"""Write what the golden cases give now: `python tests/golden/record.py [name ...]`; names may end with `*`.

Without names all cases that need no Spark are recorded and stored outputs without a case are removed; `--spark` adds
those of Spark.
"""

from __future__ import annotations

import json
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path


def record(wanted: list[str], *, spark: bool) -> None:
    """Record the cases with these names, or all."""
    from cases import CASES
    from harness import OUTPUTS, run, settled, text_of
    from spark_cases import SPARK_CASES

    from spark_sessions import session

    known = {**CASES, **SPARK_CASES}
    wanted = wanted or [*CASES, *(SPARK_CASES if spark else ())]
    names = [name for name in known if any(fnmatch(name, pattern) for pattern in wanted)]
    OUTPUTS.mkdir(exist_ok=True)
    if any(name in SPARK_CASES for name in names):
        session()  # before a case changes the folder: its processes keep the one they are started in
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            result = run(known[name], Path(folder))
        path = OUTPUTS / f"{name}.json"
        old = path.read_text(encoding="utf-8") if path.exists() else None
        text = text_of(result if old is None else settled(result, json.loads(old)))
        path.write_text(text, encoding="utf-8")
        print(f"{'new    ' if old is None else 'same   ' if old == text else 'CHANGED'} {name}")
    for path in OUTPUTS.glob("*.json"):
        if path.stem not in known:
            path.unlink()
            print(f"gone    {path.stem}")


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    record([name for name in sys.argv[1:] if name != "--spark"], spark="--spark" in sys.argv)
