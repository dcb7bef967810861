"""Whole runs of a host, sandbox and all, beside DBOS, Restate and huey.

Each program makes runs with 1, 10 and 100 workflows or callers; every slice lies between two of the
four-commit yardstick, and the programs take turns in every round.
"""
