"""A real PostgreSQL for the tests."""
