"""How the gradients of an update's tasks become one: each method a function of their dot products."""
