"""Run the thorough audit and put its tables into a document: `python -m dphist.audit docs/audit.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from dphist.audit.run import audit
from dphist.audit.tables import markdown, replaced, text


def main(document: Path) -> int:
    """0 if everything holds and everything broken was caught."""
    replaced(document.read_text(encoding="utf-8"), "")  # refuse before an hour of work
    found = audit(thorough=True, progress=lambda phase: print(f"… {phase}", file=sys.stderr, flush=True))
    document.write_text(replaced(document.read_text(encoding="utf-8"), markdown(found)), encoding="utf-8")
    print(text(found))
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
