"""Published tables and their reports as people see them: on a terminal, in a notebook, as a page, as text, as pictures."""
