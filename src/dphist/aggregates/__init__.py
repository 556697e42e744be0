"""What is asked for per group besides the count of units: what engines add up for it, its noise, its columns and its words."""
