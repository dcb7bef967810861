"""What must hold: values and pure decisions, one file for each part of the rules."""
