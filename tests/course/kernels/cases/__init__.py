"""The functions that have a ladder, a file a family: what each is given, and what is right."""
