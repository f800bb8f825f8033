"""Charts and tables that the bench writes beside a subject's figures."""
