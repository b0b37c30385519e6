"""A model behind HTTP: requests of all tasks batched together, and a page to try them on."""
