"""Run the thorough audit and put its tables into a document.

python -m dphist.audit docs/audit.md            everything, on this machine
python -m dphist.audit docs/audit.md spark      the Spark engine, in a local session
"""

from __future__ import annotations

import sys
from pathlib import Path

from dphist.audit.run import audit
from dphist.audit.tables import markdown, replaced, text


def main(document: Path, engine: str = "duckdb") -> int:
    """0 if everything holds and everything broken was caught."""
    if engine not in ("duckdb", "spark"):
        raise SystemExit(f"expected duckdb or spark, got {engine}")
    on_spark = engine == "spark"
    replaced(document.read_text(encoding="utf-8"), "", on_spark=on_spark)  # refuse before an hour of work
    session = None
    if on_spark:
        from dphist.engines.spark.engine import open_session

        session = open_session(None, None)
    found = audit(
        thorough=True, engine=session, progress=lambda phase: print(f"… {phase}", file=sys.stderr, flush=True)
    )
    written = replaced(document.read_text(encoding="utf-8"), markdown(found), on_spark=on_spark)
    document.write_text(written, encoding="utf-8")
    print(text(found))
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
