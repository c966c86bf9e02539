"""Scores of translations, their comparison with published figures, and what attention shows."""
