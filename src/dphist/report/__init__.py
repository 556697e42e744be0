"""What people look at: pictures and, later, the report of a release."""
