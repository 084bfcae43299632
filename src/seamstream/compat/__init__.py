"""Stand-ins for the event-stream parts of other libraries, one module for each.

Nothing is imported here: each module imports what it stands in for, or builds upon, when it is
imported itself, and says which extra is missing when it cannot.
"""
