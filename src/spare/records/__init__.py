"""What a run, a discovery or a bench leaves on disk; no other room knows these files."""
