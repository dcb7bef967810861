"""The scenarios of the event bus: how they are made, run, judged, shrunk and searched."""
