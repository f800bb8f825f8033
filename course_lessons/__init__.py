"""The lessons, a folder each: text, exercises, judges, pictures, toys."""
