"""Sound in, features out."""
