"""From a model's answers to scores, predictions and baselines."""
