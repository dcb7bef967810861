"""The scenarios of workflows: how they are made, run, judged, shrunk and searched."""
