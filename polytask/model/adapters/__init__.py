"""Task-specific layers: one family a file, each filling slots of the encoder."""
