"""Services on loopback that stand in for real ones: strict, counted, and faulty on command."""
