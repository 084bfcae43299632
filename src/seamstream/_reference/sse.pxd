# Types for the Cython build (setup.py). A class that is declared here has the attributes that are
# declared here, and no others.

from .pull cimport Decoder
from .utf8 cimport count_replacements, first_ill_formed
import cython

cdef int LF, CR, COLON, SPACE

@cython.locals(colon=Py_ssize_t, value=Py_ssize_t)
cdef tuple _split_field(object buffer, Py_ssize_t begin, Py_ssize_t end)

cdef class SSEDecoder(Decoder):
    cdef bint _after_cr, _at_start, _closed_at_boundary, _flush, _had_bom, _has_data, _in_comment
    cdef bint _keep_wire, _skip, _skipping
    cdef Py_ssize_t _limit, _line_start, _offset
    cdef Py_ssize_t _comments, _empty_blocks, _events, _ignored_lines, _invalid_fields, _replaced
    cdef Py_ssize_t _skipped, _torn
    cdef bytes _event_type_buffer, _id_buffer, _partial_bom
    cdef bytearray _held
    cdef list _values
    cdef str _last_event_id
    cdef object _dataless, _default_event, _field_start, _loads, _reconnection_time_ms, _retry, _start

    cdef _begin_stream(self, object last_event_id)
    cdef _clear_block(self)
    cdef _end_block(self, bytes chunk, Py_ssize_t end, Py_ssize_t base)
    cdef _end_field(self, object buffer, Py_ssize_t begin, Py_ssize_t end)
    cdef _exceed(self, Py_ssize_t offset)
    cdef bytes _held_payload(self)
    cdef bint _is_event_without_data(self) except -1
    cdef _hold(self, bytes chunk, Py_ssize_t end, Py_ssize_t base)
    cdef _tear(self)
