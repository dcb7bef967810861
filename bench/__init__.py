"""How fast the store is, told as ratios: `python -m bench`, or `make bench`."""
