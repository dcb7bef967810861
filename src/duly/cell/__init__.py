"""A locked process that can be killed, for code that must not run in the host's (X1, K7)."""
