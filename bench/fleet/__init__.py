"""Several hosts on one PostgreSQL, beside DBOS and procrastinate on the same server.

    python -m bench.fleet                  about ten minutes
    python -m bench.fleet --short          one round of short slices
    python -m bench.fleet --quick --alone  does it run at all?

Law: all programs take turns in every round, on one server that syncs; the programs of a round make
the same number of runs at once. A figure is a median; what a host and what the server cost in
processor time stands beside it. `slow` is a link that holds every byte for a millisecond each way.
"""
