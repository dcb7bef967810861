"""What every face stands on: the registry of verbs, JSON in and out, projects, and sessions."""
