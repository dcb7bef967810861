"""Who looks: every way in which a person, an agent or a program reaches a host from outside."""
