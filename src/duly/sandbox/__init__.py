"""Where scripts run: interpreters without authority, inside locked workers."""
