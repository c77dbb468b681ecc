"""Losses that use more than the labels of a batch; a method hands one to the training loop."""
