# Types for the Cython build (setup.py). A class that is declared here has the attributes that are
# declared here, and no others.

from .utf8 cimport to_bytes

cdef class Decoder:
    cdef object _busy, _error, _rest, _state

    cpdef tuple _feed(self, object chunk)
    cdef _collect(self, items)
    cpdef _enter(self)
    cpdef _fail(self)
    cpdef _open(self)
    cdef _require_open(self)
