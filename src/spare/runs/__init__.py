"""One walk from a plan to a record, and a grid of walks."""
