"""What the inferred groups mean: a description of each class, a verdict, and associations."""
