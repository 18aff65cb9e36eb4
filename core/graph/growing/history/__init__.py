"""How mini-batches have grown: their rounds found once more, and how clearly each decision was made."""
