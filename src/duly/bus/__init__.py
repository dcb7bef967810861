"""The bus: events between extensions, people and workflows, delivered to each subscriber (B)."""
