"""How many sandboxed runs a host makes in a second, beside a peer: `python -m bench.runs`."""
