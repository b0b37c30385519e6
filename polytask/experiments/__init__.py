"""Many runs at once: recipes by seeds, compared with each other."""
