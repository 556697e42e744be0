"""Whatever fails after a charge is one sentence that names the entry and says what can still be done; nothing is left half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("failing_outputs.py")
REASONS = {
    "disk full out.csv": "an output that can be written, got out.csv (",
    "disk full out.json": "an output that can be written, got out.json (",
    "disk full out.parquet": "an output that can be written, got out.parquet (File too large)",
    "disk full out.html": "an output that can be written, got out.html (File too large)",
    "folder removed": "an existing folder for the output, got outer",
    "folder removed while it is written": "an output that can be written, got outer/out.csv (",
    "ledger gone before the confirmation": "to use the ledger at ",
    "ledger gone before the charge": "to use the ledger at ",
    "a bug behind the charge": "the reason was: ZeroDivisionError",
    "a bug before the charge": "got ZeroDivisionError. Hint: this is a bug; with DPHIST_TRACEBACK=1",
    "standard output full": "the result on standard output, got: No space left on device",
    "standard output full, no file": "the result on standard output, got: No space left on device",
    "a bug in the words": "got ZeroDivisionError",
    "nothing charged, full": "the result on standard output, got: No space left on device",
    "nothing charged, disk full": "out.session, got: File too large",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("outputs")
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert set(result) == set(REASONS)
    return result


@pytest.mark.parametrize("name", REASONS)
def test_one_sentence_with_the_reason_and_the_charge(name: str, found: dict[str, Any]) -> None:
    case = found[name]
    assert case["code"] in (2, 70)
    assert len(case["told"]) == 1, case["told"]
    told = case["told"][0]
    assert told.startswith("dphist: Expected ")
    assert REASONS[name] in told
    assert case["charged"] == (0 if "before the charge" in name or "nothing" in name else 1)
    assert (f"Charged to 'people', entry {case['entry']}, head " in told) == bool(case["charged"])
    whole = name in ("ledger gone before the confirmation", "standard output full")
    assert case["left"] == (["out.csv", "out.csv.dphist.json"] if whole else [])
    assert ("out.csv is written and may be published" in told) == whole
    assert ("another run is charged again" in told) == bool(case["charged"])


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/mount").exists(), reason="only root mounts a small disk")
def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)], check=False, capture_output=True
    ).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        from command_line import dphist

        lines = "".join(f"u{n},item number {n % 900}\n" for n in range(9000))
        (tmp_path / "events.csv").write_text("user,item\n" + lines)
        (tmp_path / "keys.txt").write_text("".join(f"item number {n}\n" for n in range(900)))
        words = ["--unit", "user", "--by", "item", "--epsilon", "1", "--delta", "1e-6", "--keys", "keys.txt"]
        for out in ("out.csv", "out.parquet", "out.json"):
            done = dphist("release", "events.csv", *words, "-o", f"small/{out}", cwd=tmp_path)
            assert done.returncode == 2
            assert f"got small/{out} (No space left on device). Hint: free space" in done.stderr
            assert list(small.iterdir()) == []
        with suppress(OSError):
            (small / "filling").write_bytes(bytes(64 << 10))
        done = dphist("release", "events.csv", *words, "-o", "small/out.csv", cwd=tmp_path)
        assert "No space left on device" in done.stderr
        assert "reading" not in done.stderr, "found out before anything is read"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_link_to_another_file_system_is_written_through_or_refused(tmp_path: Path) -> None:
    from command_line import dphist

    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("no other file system here")
    (tmp_path / "events.csv").write_text("user,item\n" + "".join(f"u{n},a\n" for n in range(300)))
    target = Path(f"/dev/shm/dphist-test-{os.getpid()}")
    target.mkdir()
    try:
        (tmp_path / "folder").symlink_to(target)
        (tmp_path / "link.csv").symlink_to(target / "out.csv")
        words = [
            "release",
            "events.csv",
            "--unit",
            "user",
            "--by",
            "item",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--max-groups",
            "1",
        ]
        assert dphist(*words, "-o", "folder/out.csv", cwd=tmp_path).returncode == 0
        assert sorted(path.name for path in target.iterdir()) == ["out.csv", "out.csv.dphist.json"]
        done = dphist(*words, "-o", "link.csv", "--overwrite", cwd=tmp_path)
        assert done.returncode == 2
        assert "a regular file as the output" in done.stderr
        assert "reading" not in done.stderr
    finally:
        for path in target.iterdir():
            path.unlink()
        target.rmdir()
