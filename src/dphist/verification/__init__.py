"""Published files checked against their plans and guarantees, without the data."""
