"""Files and folders: read with care, and written whole or not at all."""
