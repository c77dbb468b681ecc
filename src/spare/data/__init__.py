"""What a task is: splits, where their inputs come from, and who may see which labels."""
