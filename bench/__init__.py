"""How fast the store is, as ratios to plain SQLite: `python -m bench`, or `make bench`."""
