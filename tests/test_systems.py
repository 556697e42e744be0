"""A system without locks, owners and limits, as Windows is: as far as that can be told on one that has them."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist

SOURCES = Path(dphist.__file__).parent
ABSENT = {
    "os": {
        "geteuid", "getuid", "getgid", "fork", "fchmod", "fchown", "chown", "mkfifo", "killpg", "setsid", "getpgid", "nice",
        "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "set_blocking", "statvfs", "sched_getaffinity", "wait", "pread",
    },
    "signal": {"SIGHUP", "SIGKILL", "SIGALRM", "alarm", "setitimer", "pthread_sigmask", "sigwait", "pause"},
    "socket": {"AF_UNIX"},
    "select": {"poll", "epoll"},
}  # fmt: skip
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix", "crypt"}
SUSPECT = re.compile(rf"\b({'|'.join(sorted(MODULES.union(*ABSENT.values())))})\b")
"""Only a file with one of these words can use one of them."""

WITHOUT = """
import json, os, signal, subprocess, sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for name in ("geteuid", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "set_blocking"):
    delattr(os, name)
for name in ("SIGHUP", "alarm"):
    delattr(signal, name)
from dphist.__main__ import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["dphist", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def without(*calls: tuple[str, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Commands in one process, up to the first that fails.

    In a directory for temporary files of its own: those who have locks remove an empty one that nobody locked.
    """
    own = cwd.with_name("temporary")
    own.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps(calls)],
        capture_output=True, text=True, encoding="utf-8", cwd=cwd, check=False, env={**os.environ, "TMPDIR": str(own)},
    )  # fmt: skip


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_what_some_systems_lack_is_used_in_one_place(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.name == "systems.py" or not SUSPECT.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & MODULES
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.attr not in ABSENT.get(node.value.id, ()), f"{node.value.id}.{node.attr} in line {node.lineno}"


def test_a_release_its_ledger_and_its_verification_need_no_locks(tmp_path: Path) -> None:
    users = [f"u{i}" for i in range(3_000)]
    pq.write_table(pa.table({"user": users, "url": ["a", "b", "c"] * 1_000}), tmp_path / "events.parquet")
    budget = ("--epsilon", "1", "--delta", "1e-6")
    ledger = ("--ledger", "ledger.db", "--dataset", "events")
    calls = [
        ("ledger", "create", *ledger, "--unit", "user", *budget, "--accountant", "basic"),
        ("release", "events.parquet", "--unit", "user", "--by", "url", *budget, "-o", "out.parquet", *ledger),
        ("verify", "out.parquet", "--ledger", "ledger.db"),
    ]
    done = without(*calls, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("dphist: ")) == (0, 0), done.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"events.parquet", "ledger.db", "out.parquet"}
    assert not [path for path in tmp_path.iterdir() if "private" in path.name or path.name.startswith(".")]


def test_a_session_is_refused_without_locks_before_it_costs_anything(tmp_path: Path) -> None:
    words = ("--unit", "user", "--epsilon", "1", "--delta", "1e-6", "--results", "5", "--queries", "2")
    done = without(("session", "start", "session.json", *words), cwd=tmp_path)
    assert done.returncode == 2
    assert "Expected a system with locks of files, got one without." in done.stderr
    assert not list(tmp_path.iterdir())
