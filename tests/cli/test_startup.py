"""What a command loads: numbers, engines and databases take longer to import than most commands take to run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "scipy", "duckdb", "pyarrow", "sqlalchemy", "pydantic", "cryptography", "rich", "pandas", "pyspark")
OF_SQL = ("sqlglot", "prompt_toolkit", "pygments")
WHOLE = "scipy.special"

LOADED = """
import json, sys
from dphist.__main__ import main
for words in json.loads(sys.argv.pop()):
    sys.argv = ["dphist", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end
    print("LOADED", *sys.modules, file=sys.stderr)
"""


def _loaded(*commands: list[str], cwd: Path | None = None) -> list[set[str]]:
    """The modules of a process that runs some commands, after each of them."""
    words = [sys.executable, "-W", "error", "-c", LOADED, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=True)
    return [set(line.split()[1:]) for line in done.stderr.splitlines() if line.startswith("LOADED ")]


def test_help_loads_nothing_that_takes_long() -> None:
    asked = ["--help", "--version", "release --help", "ledger record --help-all", "stat -h", "sql -h"]
    loaded = _loaded(*(words.split() for words in asked))
    for words, modules in zip(asked, loaded, strict=True):
        assert modules.isdisjoint({*HEAVY, *OF_SQL}), words


def test_a_release_loads_nothing_of_sql_and_a_statement_nothing_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,item\n" + "".join(f"{n},a\n" for n in range(99)))
    budget = ["--unit", "user", "--epsilon", "1", "--delta", "1e-6"]
    release = ["release", "events.csv", "--by", "item", "--max-groups", "1", *budget, "-o", "o.csv"]
    query = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT user) FROM events"
    released, answered = _loaded(release, ["sql", query, "--table", "events.csv", *budget], cwd=tmp_path)
    assert "duckdb" in released
    assert released.isdisjoint({"sqlglot", "prompt_toolkit", "dphist.sql"})
    assert "sqlglot" in answered
    assert answered.isdisjoint({"prompt_toolkit", "dphist.cli.shell"})


def test_a_plan_loads_numbers_and_no_engine(tmp_path: Path) -> None:
    (loaded,) = _loaded(["plan", "--epsilon", "1", "--delta", "1e-8"], cwd=tmp_path)
    assert {"numpy", "scipy.special._ufuncs"} <= loaded
    unneeded = {"duckdb", "pyarrow", "sqlalchemy", "rich", "pandas", "matplotlib", "scipy.stats", "scipy.optimize"}
    assert loaded.isdisjoint({*unneeded, WHOLE, "numpy.testing", "numpy.f2py", "dphist.engines.duckdb"})


def test_importing_dphist_loads_neither_numbers_nor_the_command_line() -> None:
    code = "import sys, dphist; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert loaded.isdisjoint({*HEAVY, "click", "dphist.cli"})


HURRIED = """
import sys
from dphist.privacy import special
special.hurry()
from dphist.privacy.special import log_ndtr, ndtr
assert "scipy.special" not in sys.modules
import numpy as np
grid = np.linspace(-30, 30, 601)
quick = [getattr(special, name) for name in special.__all__]
import scipy.special, scipy.stats, scipy.optimize
from scipy.special import _ufuncs
assert quick == [getattr(scipy.special, name) for name in special.__all__]
assert np.array_equal(ndtr(grid), scipy.stats.norm.cdf(grid))
assert scipy.optimize.linprog([1], bounds=[(2, 3)]).x == [2]
assert scipy.special.logsumexp([0.0, 0.0]) == np.log(2)
"""


def test_functions_loaded_alone_are_those_of_scipy_which_loads_whole_afterwards() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", HURRIED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("change", ["import scipy.special", "special._COMPILED = 'scipy.special.no_such'"])
def test_the_whole_is_loaded_where_the_functions_cannot_be_had_alone(change: str) -> None:
    code = f"""
from dphist.privacy import special
special.hurry()
{change}
from dphist.privacy.special import ndtr
import sys
assert "scipy.special" in sys.modules
from scipy import special as whole
assert ndtr is whole.ndtr and ndtr(0.0) == 0.5
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_nothing_is_done_to_scipy_in_somebodys_program() -> None:
    code = "import sys, dphist; dphist.plan; assert 'scipy.special' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
