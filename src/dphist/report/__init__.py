"""What people look at: pictures of plans, and the report of a release."""
