"""From a job to what is published: selecting, counting, columns, the record; statistics, lists, sessions, streams."""
