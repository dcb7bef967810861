"""A locked process that can be killed: for what must not be trusted with this one (X1, K7)."""
