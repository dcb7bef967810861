"""Every sentence that people read, made from facts, once for all faces."""
