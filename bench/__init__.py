"""How fast Duly is, beside plain SQLite and beside others: `python -m bench`, or `make bench`."""
