"""Proof by fire: the engine and the store that ship, in a world that goes wrong on purpose."""
