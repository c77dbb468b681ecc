"""The one training loop, and all that a recipe trains with."""
