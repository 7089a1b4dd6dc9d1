"""Foreign formats of agent runs, read into terminal events and companions."""
