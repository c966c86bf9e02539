"""Updates, annealing, checkpoints and the loop around them."""
