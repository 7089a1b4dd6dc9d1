"""What all tests share."""

from hypothesis import settings

# How long an example takes says nothing on a machine that does other work too.
settings.register_profile("offramp", deadline=None)
settings.load_profile("offramp")
