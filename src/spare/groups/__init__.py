"""Ways to name groups without group labels."""
