"""What is written: files of a table, digests, private files."""
