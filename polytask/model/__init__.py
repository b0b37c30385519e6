"""Tokens to scores: the encoder, its task-specific layers and the heads."""
