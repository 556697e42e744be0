"""The command line: what every command prints, writes and refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from harness import cli

PEOPLE = "--unit user --by item"
SMALL = "--epsilon 1 --delta 1e-6 --max-groups 3"
BUDGET = "--epsilon 1 --delta 1e-6"

SCRIPTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "plan": (
        (
            f"plan {SMALL}",
            f"plan {BUDGET} --json",
            f"plan {BUDGET} --mechanism voting --emphasis counts --total",
            f"plan {BUDGET} --keys keys.txt --sparse --sum likes:0:1 --mean spent:-2:18 --rows 3 --weight rows=0.5",
            f"plan {BUDGET} --sparsity 40 --mechanism correlated-gaussian --correlation 0.2 --low-threshold 3",
            f"plan {SMALL} --analysis f-dp --objective gap --noise-std 20 --save plan.json",
            f"plan {BUDGET} --sketch 30 --save plan.json",
            f"plan {BUDGET} --sketch 30 --save plan.json --overwrite --json",
            f"plan {SMALL} --noise discrete",
        ),
        ("plan.json",),
    ),
    "plan-pictures": (
        (
            f"plan {SMALL} --plot plan.svg",
            "profile --noise-std 16 --gap 98 --max-groups 10 --epsilon 0.5 --epsilon 1 --plot profile.svg --json",
        ),
        (),
    ),
    "profile": (
        (
            "profile --noise-std 16.2 --gap 98 --max-groups 10 --epsilon 0.5 --epsilon 1",
            "profile --noise-std 16.2 --gap 98 --max-groups 10 --delta 1e-8 --analysis f-dp --low-threshold 4 --json",
            "profile --noise-std 5 --gap 60 --max-groups 2 --mechanism laplace --epsilon 1 --delta 1e-9",
            "profile --noise-std 5 --gap 60 --sparsity 50 --mechanism correlated-gaussian --epsilon 1",
            "profile --noise-std 5 --gap 60 --sparsity 50 --max-groups 4 --correlation 0.3 --epsilon 1 --json"
            " --mechanism correlated-gaussian",
            "profile --noise-std 5 --gap 60 --max-groups 4",
            "profile --noise-std 5 --gap 60 --epsilon 1",
        ),
        (),
    ),
    "release": (
        (
            f"release events.parquet {PEOPLE} {SMALL} -o out.parquet --report out.html --sum likes:0:1",
            f"release events.parquet {PEOPLE} {SMALL} -o out.parquet",
            f"release events.parquet {PEOPLE} {SMALL} -o out.csv --threads 1 --memory-limit 1GB --temp-directory . --show 2",
            f"release events.parquet {PEOPLE} {SMALL} -o out.csv --overwrite --quiet --order key --intervals 0.9 --integers",
            "verify out.parquet",
            "verify out.csv --json",
        ),
        ("out.parquet", "out.csv", "out.html"),
    ),
    "select": (
        (
            f"plan {BUDGET} --keys-only --save plan.json",
            f"plan {BUDGET} --keys-only --mechanism voting --low-threshold 5 --json",
            f"plan {BUDGET} --keys-only --total",
            f"select events.parquet {PEOPLE} {BUDGET} -o out.parquet --report out.html",
            f"select events.parquet {PEOPLE} --plan plan.json -o out.csv --show 2",
            f"select events.parquet {PEOPLE} {BUDGET} --mechanism adaptive -o out.json --json --where likes~=~1",
            f"select events.parquet {PEOPLE} {BUDGET} --low-threshold 3 -o low.csv --quiet --null-keys drop",
            f"select events.parquet {PEOPLE} {BUDGET} --dry-run",
            f"select events.parquet {PEOPLE} {BUDGET} --explain",
            f"select events.parquet {PEOPLE} -o more.csv",
            f"release events.parquet {PEOPLE} --plan plan.json -o more.csv",
            "verify out.parquet",
            "verify out.csv --json",
        ),
        ("plan.json", "out.parquet", "out.csv", "out.json", "low.csv", "out.html"),
    ),
    "release-json": (
        (
            f"release events.parquet {PEOPLE} {SMALL} -o out.json --json --total --mean spent:-2:18 --rows 2",
            f"release events.parquet {PEOPLE} {SMALL} --report only.html --unsafe-diagnostics --null-keys drop",
            "verify out.json",
            "verify only.html",
        ),
        ("out.json", "only.html"),
    ),
    "release-options": (
        (
            f"release events.parquet {PEOPLE} {BUDGET} --sparsity 25 -o a.csv --analysis tight --correlation 0.2",
            f"release events.parquet {PEOPLE} {BUDGET} --keys keys.txt -o b.csv --rows 2 --weight rows=0.5",
            f"release events.parquet {PEOPLE} {BUDGET} --keys keys.txt --sparse --max-groups 2 -o c.csv",
            f"release events.parquet {PEOPLE} {BUDGET} --sketch 20 -o d.csv",
            f"release events.parquet {PEOPLE} {BUDGET} --mechanism voting -o e.csv",
            f"release events.parquet {PEOPLE} --epsilon 2 --delta 1e-6 -o f.csv --unsafe-diagnostics",
            f"release events.parquet {PEOPLE} {SMALL} --objective noise --low-threshold 20 --analysis exact -o h.csv",
            f"release events.parquet {PEOPLE} {SMALL} --noise-std 16 --where likes~=~1 --by m=date_trunc('month',day) -o i.csv",
            f"release events.csv {PEOPLE} {SMALL} -o j.csv",
            f"release bare.csv --no-header user,likes,spent --unit user --by likes {SMALL} -o k.csv",
            f"release batch*.parquet {PEOPLE} {SMALL} -o m.csv",
        ),
        ("b.csv", "e.csv", "i.csv"),
    ),
    "release-of-a-plan": (
        (
            f"plan {SMALL} --total --save plan.json",
            f"release events.parquet {PEOPLE} --plan plan.json -o out.csv",
            f"release events.parquet {PEOPLE} --plan plan.json -o more.csv --epsilon 1",
            f"release events.parquet {PEOPLE} --plan plan.json -o plan.json --overwrite",
            f"release events.parquet {PEOPLE} --plan nothing.json -o more.csv",
        ),
        ("out.csv",),
    ),
    "explain": (
        (
            f"release events.parquet {PEOPLE} {SMALL} --explain",
            f"release events.parquet {PEOPLE} {BUDGET} --explain --sum likes:0:1 --total",
            f"release events.parquet {PEOPLE} {BUDGET} --mechanism voting --explain",
            f"release events.parquet {PEOPLE} {BUDGET} --keys keys.txt --explain --mean spent:-2:18 --rows 2",
            f"release events.parquet {PEOPLE} {BUDGET} --sketch 20 --explain",
            f"release events.csv --unit user --by half=substr(item,1,3)||country --where likes='1' {SMALL} --explain",
        ),
        (),
    ),
    "dry-run": (
        (
            f"release events.parquet {PEOPLE} {SMALL} --dry-run",
            f"release events.parquet {PEOPLE} {BUDGET} --dry-run --quiet",
            f"release events.parquet --unit person --by item {SMALL} --dry-run",
            f"top-k events.parquet {PEOPLE} --k 3 {BUDGET} --dry-run --method ranked",
            f"stat max --lower 0 --upper 120 --error 1 --drop 0.02 --min-records 150000 --dry-run {BUDGET}",
        ),
        (),
    ),
    "top-k": (
        (
            f"top-k events.parquet {PEOPLE} --k 4 {BUDGET} -o out.parquet --report out.html",
            f"top-k events.parquet {PEOPLE} --k 4 {BUDGET} --method from-top --max-groups 2 --json",
            f"top-k events.parquet {PEOPLE} --k 4 {BUDGET} --method ranked --shortlist 12 -o out.csv --show 2",
            f"top-k events.parquet {PEOPLE} --k 25 {BUDGET} --method from-top --null-keys drop --where likes=1 --threads 1",
            f"top-k events.parquet {PEOPLE} --k 4 {BUDGET} --max-groups 2",
            "verify out.parquet",
            "verify out.csv",
        ),
        ("out.parquet", "out.csv", "out.html"),
    ),
    "session": (
        (
            f"session start s.json --unit user {BUDGET} --results 9 --queries 3 --shortlist 20",
            "session query s.json events.parquet --by item --k 3",
            "session query s.json events.parquet --by country --k 2 --where likes=1 --null-keys drop --json",
            "session query s.json events.parquet --by item --k 9",
            "session show s.json",
            "session show s.json --json",
            "session show keys.txt",
        ),
        (),
    ),
    "continual": (
        (
            f"continual start stream {PEOPLE} --rounds 4 --max-groups 2 {BUDGET}",
            "continual show stream",
            "continual add stream batch0.parquet --batch monday",
            "continual add stream batch1.parquet --batch tuesday -o out.csv --report out.html --show 2",
            "continual add stream batch1.parquet --batch tuesday",
            "continual add stream batch2.parquet --batch wednesday --json",
            "continual show stream --batches",
            "continual show stream -o out.parquet --show 1",
            "verify out.csv",
            "verify out.parquet",
        ),
        ("out.csv", "out.html"),
    ),
    "stat": (
        (
            f"stat max events.parquet --unit user --column spent --lower -2 --upper 18 --error 1 --drop 0.4 --min-records 1400"
            f" {BUDGET}",
            f"stat median events.parquet --unit user --column spent --lower -2 --upper 18 --error 1 {BUDGET} --json",
            f"stat quantile events.csv --unit user --column spent --lower -2 --upper 18 --error 2 {BUDGET} --probability 0.9",
            f"stat mode events.csv --unit user --column likes --as number --max-values 3 {BUDGET} --max-records 2",
            f"stat max-k events.csv --unit user --column likes --as text --k 30 {BUDGET}",
            f"stat max-k events.csv --unit user --column likes --k 30 {BUDGET}",
            f"stat is-empty events.parquet --unit user --where likes>5 {BUDGET}",
            f"stat max --lower 0 --upper 120 --error 1 {BUDGET} --table",
            f"stat mode --max-values 9 {BUDGET} --drop 0.01 --min-records 5000 --table",
            "stat max events.parquet --unit user --column spent",
            f"stat max --column spent {BUDGET} --lower 0 --upper 1 --error 1",
        ),
        (),
    ),
    "ledger": (
        (
            "ledger create --ledger l.db --dataset people --epsilon 3 --delta 1e-5 --unit user --expect-releases 20",
            f"ledger create --ledger l.db --dataset rounds {BUDGET} --unit user --accountant basic --protects event",
            f"ledger create --ledger l.db --dataset rounds {BUDGET} --unit user --accountant basic",
            f"ledger create --ledger l.db --dataset more {BUDGET} --unit user",
            f"release events.parquet {PEOPLE} {SMALL} -o paid.csv --ledger l.db --dataset people",
            f"release events.parquet {PEOPLE} {SMALL} --dry-run --ledger l.db --dataset people",
            f"release events.parquet {PEOPLE} --epsilon 9 --delta 1e-6 --max-groups 3 -o no.csv --ledger l.db --dataset people",
            f"top-k events.parquet {PEOPLE} --k 3 --method ranked --epsilon 0.2 --delta 1e-7 --ledger l.db --dataset people",
            "stat is-empty events.parquet --unit user --epsilon 0.2 --delta 1e-7 --ledger l.db --dataset people",
            "session start s.json --unit user --epsilon 0.2 --delta 1e-7 --results 5 --queries 2 --ledger l.db"
            " --dataset people",
            "session query s.json events.parquet --by item --k 2 --ledger l.db",
            f"continual start stream {PEOPLE} --rounds 3 --max-groups 2 --epsilon 0.5 --delta 1e-7 --ledger l.db"
            " --dataset rounds",
            "continual add stream batch0.parquet --batch a --ledger l.db",
            "ledger record --ledger l.db --dataset people --unit user --protects unit --epsilon 0.1 --note survey",
            "ledger record --ledger l.db --dataset people --unit user --protects unit --rho 0.01 --convert-at 1e-9 --note two",
            "ledger record --ledger l.db --dataset people --unit user --protects unit --epsilon 50 --note everything",
            "ledger show --ledger l.db",
            "ledger show --ledger l.db --dataset people --json",
            "ledger history --ledger l.db --dataset people",
            "ledger history --ledger l.db --dataset rounds --json",
            "ledger history --ledger l.db",
            "ledger verify --ledger l.db --dataset people",
            "ledger verify --ledger l.db --dataset rounds --json",
            f"ledger verify --ledger l.db --dataset rounds --head {'0' * 64}",
            "ledger export --ledger l.db --dataset rounds",
            "ledger export --ledger l.db --dataset people -o export.json",
            "ledger show",
            "ledger show --ledger none.db",
            "verify paid.csv --ledger l.db",
        ),
        (),
    ),
    "wrong-words": (
        (
            "",
            "--version",
            "plans",
            "plan",
            f"plan {BUDGET} --max-groups many",
            f"plan {BUDGET} --max-groups 3 --sum likes",
            f"plan {BUDGET} --max-groups 3 --weight likes",
            f"plan {BUDGET} --keys nothing.txt",
            f"plan {SMALL} --save no/such/plan.json",
            f"release events.parquet {PEOPLE} {SMALL}",
            f"release events.parquet {PEOPLE} -o out.csv",
            f"release events.parquet {PEOPLE} {SMALL} -o events.parquet --overwrite",
            f"release events.parquet {PEOPLE} {SMALL} -o out.xls",
            f"release events.parquet {PEOPLE} {SMALL} -o out.csv --engine abacus",
            f"release events.parquet {PEOPLE} {SMALL} -o out.csv --master local",
            f"release nothing.parquet {PEOPLE} {SMALL} -o out.csv",
            f"release events.parquet --unit user --by n=count(*) {SMALL} -o out.csv",
            f"release events.parquet {PEOPLE} {SMALL} -o out.csv --where random()<0.5",
            "verify nothing.csv",
            "audit --mechanism nothing",
            "audit --plan plan.json --engine spark",
        ),
        (),
    ),
}


def _script(name: str) -> dict[str, Any]:
    commands, files = SCRIPTS[name]
    return cli(*commands, files=files)


COMMANDS: dict[str, Callable[[], Any]] = {
    **{f"command-{name}": partial(_script, name) for name in SCRIPTS},
}
