"""The commands of `perdure`, a module for each group of them."""
