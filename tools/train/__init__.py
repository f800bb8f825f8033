"""Make the data and the weights that come with the course."""
