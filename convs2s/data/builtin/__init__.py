"""The synchronous grammar behind `convs2s.data.grammar`: words, rules of both languages, and what is said with them."""
