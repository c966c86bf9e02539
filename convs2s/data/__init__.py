"""Text files <-> encoded sentences <-> batches."""
