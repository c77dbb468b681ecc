"""Losses that look at more than the batch's labels: each is handed to the training loop."""
