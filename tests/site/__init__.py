"""The documentation as a site: pages of `docs/`, made into HTML that works from a folder."""
