"""Who asks: what people and agents want of a host, and what they are shown of it."""
