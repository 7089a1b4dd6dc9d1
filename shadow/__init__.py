"""Legacy against new: how each run's two exits compare, what operators' recovery says of it, and when to enforce."""
