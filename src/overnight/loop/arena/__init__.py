"""What a person wrote: the arena, whether it is fit to be left alone, and where a new one comes from."""
