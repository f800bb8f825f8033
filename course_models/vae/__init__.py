"""A variational autoencoder of digits: an image becomes a few numbers, numbers become an image."""
