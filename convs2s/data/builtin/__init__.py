"""The corpus of the quickstart: a synchronous grammar, its words, what is said with them, and splits of it."""
