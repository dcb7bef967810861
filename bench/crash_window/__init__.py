"""What becomes of one outside change when the process that makes it is killed."""
