"""Data: files -> records -> rows -> token tables -> batches."""
