"""What people look at: published tables and their reports, on a terminal, as a page, in a notebook, as text, in pictures."""
