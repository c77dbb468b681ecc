"""Image files decoded, brought to one size and kept in a cache; and statistics of images."""
