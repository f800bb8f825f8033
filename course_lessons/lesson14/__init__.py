"""A network in one kernel."""
