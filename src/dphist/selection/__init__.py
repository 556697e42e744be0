"""Which groups to release, and how many units they have, in several passes over the pairs of units and groups."""
