"""Optional sinks of a run's events: TensorBoard, MLflow and Weights & Biases, each in a module of its own."""
