"""What scripts may touch: the outside, one connector per service."""
