"""Verification: the engine, the bus and the store that ship, in scenarios that go wrong on purpose.

`workflow` and `bus` each hold the scenarios of one kind: how they are made from a seed, run, judged
by oracles, made smaller, and searched for planted bugs. The modules here serve both kinds. Nothing
of it is in the wheel, and the package imports nothing of it.
"""
