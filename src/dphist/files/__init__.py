"""Files on the disk: what may be written, in one step; locks, scratch, the formats of tables, what was stored."""
