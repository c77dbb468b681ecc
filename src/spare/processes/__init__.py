"""What the processes of one job tell each other; the one room that knows of torch.distributed."""
