# Types for the Cython build (setup.py). A class that is declared here has the attributes that are
# declared here, and no others.

from .pull cimport Decoder
from .utf8 cimport first_ill_formed
import cython

cdef int _MORE, _WHOLE, _FAILED
cdef int _IN_VALUE, _IN_ARRAY, _IN_OBJECT, _IN_KEY, _IN_COLON, _IN_AFTER
cdef int _IN_STRING, _IN_ESCAPE, _IN_HEX, _IN_LITERAL
cdef int _AFTER_MINUS, _AFTER_ZERO, _AFTER_INTEGER, _AFTER_POINT, _AFTER_FRACTION
cdef int _AFTER_E, _AFTER_SIGN, _AFTER_EXPONENT
cdef int _QUOTE, _BACKSLASH, _COMMA, _LF, _COLON
cdef int _OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET, RECORD_SEPARATOR
cdef bytes WHITE, MARKS, SCALAR_BEGINS, VALUE_BEGINS, SELF_DELIMITED

cdef _next_in_number(int state, unsigned char byte)

cdef class _Grammar:
    cdef bint after_string, is_key, line_feed_fails
    cdef int hex_digits, state
    cdef Py_ssize_t brace, deepest, max_levels, quote_end
    cdef bytes literal
    cdef bytearray stack

    cdef begin(self)
    cdef begin_in_key(self)
    @cython.locals(begin=Py_ssize_t, byte=cython.uchar, state=int)
    cdef tuple scan(self, bytearray data, Py_ssize_t index, Py_ssize_t end, Py_ssize_t base)
    @cython.locals(opener=cython.uchar, state=int)
    cdef bint _token(self, unsigned char byte) except -1
    cdef bint _value_ends(self) except -1
    cdef _note_tail(self, bytearray data, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t base)

cdef class _Framer:
    cdef bint skip
    cdef int last_byte
    cdef Py_ssize_t at, base, end, limit, max_depth, replay_end, visible
    cdef bytearray held
    cdef list items
    cdef str kind
    cdef _Grammar grammar
    cdef object array_closed, candidate, start, step

    cdef take(self, bytes chunk)
    cdef run(self)
    cdef finish(self)
    cdef forget(self)
    cdef Py_ssize_t keep_from(self) except -1
    cdef int _byte(self) except -2
    cdef int _next(self) except -2
    cdef bint _find(self, int byte) except -1
    cdef int _scan(self) except -2
    cdef bint _outgrows(self, Py_ssize_t start) except -1
    cdef bytes _slice(self, Py_ssize_t begin, Py_ssize_t end)
    cdef bint _is_valid(self, bytes raw) except -1
    cdef _emit(self, bytes raw, str kind, Py_ssize_t offset)
    cdef _settle(self, Py_ssize_t start, Py_ssize_t end, str kind)
    cdef _rest(self, Py_ssize_t start)

cdef class _Concatenated(_Framer):
    cdef bint is_container

cdef class _Sequence(_Framer):
    cdef bint is_bare

cdef class _Lines(_Framer):
    pass

cdef class _Array(_Framer):
    cdef bint after_string, at_line_begin, counting, escaped, in_string, is_container
    cdef int previous, returns
    cdef Py_ssize_t comma, failed_at
    cdef bytearray stack

    cdef bint _count(self, int byte) except -1

cdef class JSONStreamDecoder(Decoder):
    cdef bint _at_start, _skip
    cdef dict _counts
    cdef object _framing, _limits, _loads
    cdef _Framer _framer

    cdef _begin_stream(self)
    cdef _exceed(self, Py_ssize_t offset)
    cdef list _take_items(self)
