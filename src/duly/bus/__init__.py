"""Who is told: the bus between extensions, people and workflows (B)."""
