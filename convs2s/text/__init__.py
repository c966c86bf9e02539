"""A line of text <-> ids: tokenisers and vocabulary."""
