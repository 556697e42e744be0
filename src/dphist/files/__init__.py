"""Files on the disk: outputs, locks, private directories, formats of tables, and the reader of stored files."""
