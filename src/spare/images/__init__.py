"""From image files of any kind to tensors of one size, decoded once and kept on disk."""
