"""What happens: the engine runs what is due and keeps the promise about outside changes."""
