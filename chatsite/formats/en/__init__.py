"""The English spellings; they are in formats."""
