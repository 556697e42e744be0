"""The engine on this machine: an embedded DuckDB."""
