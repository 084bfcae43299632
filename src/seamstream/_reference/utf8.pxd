cpdef Py_ssize_t count_replacements(bytes data) except -1
cpdef first_ill_formed(bytes data)
cpdef bytes to_bytes(object chunk)
