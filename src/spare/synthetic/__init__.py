"""Drawn data sets in the layouts of the official ones."""
