"""Groups within classes, found without group labels, and sampling by them; no trainer needed."""
