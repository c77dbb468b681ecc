"""What a run, a discovery or a bench leaves on disk: this room alone knows the files and formats."""
