"""Compare a release of the flights with the true counts, which everybody may know: the table is public.

    python examples/how_close.py build/flights.csv build/destinations.parquet

With private data nobody can do this. That is why a release comes with standard errors; here one sees whether they are right.
"""

import sys

import duckdb

SHOWN = 10


def main(flights: str, released: str) -> None:
    """Some of the released counts beside the true ones, and how many intervals cover."""
    rows = duckdb.execute(
        """
        SELECT dest, count, count_std_error, count_low <= units AND units <= count_high, units
        FROM read_parquet($released) JOIN (
            SELECT dest, count(DISTINCT tailnum) AS units FROM read_csv($flights, all_varchar=true) GROUP BY dest
        ) USING (dest)
        ORDER BY count DESC
        """,
        {"released": released, "flights": flights},
    ).fetchall()
    print("\nHow close is it? This table is public, so that we can look:\n")
    print("  dest       released   true   error")
    for place in sorted({round(i * (len(rows) - 1) / (SHOWN - 1)) for i in range(SHOWN)}):
        dest, count, error, _, units = rows[place]
        print(f"  {dest:<6}{count:>7,.0f} ± {error:<4,.0f}{units:>6,}{count / units - 1:>+8.0%}")
    within = sum(covers for *_, covers, _ in rows)
    print(f"\n{within} of {len(rows)} intervals of 95 % cover the true count.")


if __name__ == "__main__":
    main(*sys.argv[1:3])
