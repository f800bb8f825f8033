"""Charts and tables that the bench puts beside a subject's figures."""
