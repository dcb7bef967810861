"""`duly demo`: mails become rows, the host is killed at the worst moment, and nothing is lost."""
