//! The small kit for code that cannot afford the safe layer.
//!
//! `PyO3`'s layer costs about 38 ns an event and 20 ns a call where the whole budget
//! is 50 and 105. What runs once for each event or chunk therefore talks to the C API
//! itself, through what is here: an owned reference, a `bytes` object that grows in
//! place, a list of new events, the view of a buffer, and the guard that no panic
//! passes. Everything here runs with the GIL held.

use crate::errors;
use pyo3::ffi;
use pyo3::prelude::*;
use seamstream::utf8::{self, Shape, Width};
use seamstream::{OutOfMemory, PayloadBuf};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// A reference, borrowed or owned as the context says.
pub(crate) type Object = *mut ffi::PyObject;

/// The error indicator is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raised;

/// An owned reference that is given back without asking who holds the GIL.
pub(crate) struct Strong(NonNull<ffi::PyObject>);

// SAFETY: only ever used with the GIL held, which this crate's entries are.
unsafe impl Send for Strong {}
// SAFETY: as above.
unsafe impl Sync for Strong {}

impl Strong {
    /// Takes over a new reference; null means that an error is set.
    ///
    /// # Safety
    /// `object` is null or a reference that the caller owns.
    #[inline(always)]
    pub unsafe fn owned(object: Object) -> Result<Self, Raised> {
        NonNull::new(object).map(Strong).ok_or(Raised)
    }

    /// A second reference to `object`.
    ///
    /// # Safety
    /// `object` is a live object.
    #[inline(always)]
    pub unsafe fn borrowed(object: Object) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            ffi::Py_INCREF(object);
            Strong(NonNull::new_unchecked(object))
        }
    }

    #[inline(always)]
    pub fn as_ptr(&self) -> Object {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn into_ptr(self) -> Object {
        let object = self.as_ptr();
        std::mem::forget(self);
        object
    }

    /// The object in the safe layer.
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: a live object, and `py` says that the GIL is held.
        unsafe { Bound::from_borrowed_ptr(py, self.as_ptr()) }
    }

    /// The reference that the safe layer owned.
    pub fn from_bound(object: Bound<'_, PyAny>) -> Self {
        // SAFETY: `into_ptr` gives the reference away, and it is not null.
        Strong(unsafe { NonNull::new_unchecked(object.into_ptr()) })
    }
}

impl Clone for Strong {
    #[inline(always)]
    fn clone(&self) -> Self {
        // SAFETY: what is owned is live.
        unsafe { Strong::borrowed(self.as_ptr()) }
    }
}

impl Drop for Strong {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and the GIL is held.
        unsafe { ffi::Py_DECREF(self.as_ptr()) }
    }
}

/// What an exact `bytes` object holds.
///
/// # Safety
/// `bytes` is an exact `bytes` object that outlives the slice.
#[inline(always)]
pub(crate) unsafe fn bytes_of<'a>(bytes: Object) -> &'a [u8] {
    // SAFETY: the caller's promise; such an object never changes.
    unsafe {
        from_raw_parts(
            ffi::PyBytes_AS_STRING(bytes).cast::<u8>(),
            ffi::Py_SIZE(bytes).cast_unsigned(), // never negative
        )
    }
}

/// A new `bytes` object.
#[inline(always)]
pub(crate) fn new_bytes(bytes: &[u8]) -> Result<Strong, Raised> {
    if may_be_spare(bytes.len())
        && let Some(spare) = take_spare(bytes.len())
    {
        // SAFETY: what was kept has room for so many, and nobody else knows it.
        unsafe { fill(spare.as_ptr(), bytes) };
        return Ok(spare);
    }
    new_bytes_without_spare(bytes)
}

#[inline(never)]
fn new_bytes_without_spare(bytes: &[u8]) -> Result<Strong, Raised> {
    // SAFETY: pointer and length are those of a slice, which is never longer than isize::MAX. What
    // may become a spare has the room of one, and is of a length that has no objects ready.
    unsafe {
        if may_be_spare(bytes.len()) {
            let room = room_for(bytes.len()).cast_signed();
            let made = Strong::owned(ffi::PyBytes_FromStringAndSize(ptr::null(), room))?;
            fill(made.as_ptr(), bytes);
            return Ok(made);
        }
        let (data, len) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
        Strong::owned(ffi::PyBytes_FromStringAndSize(data, len))
    }
}

/// Makes `bytes` what an object holds.
///
/// # Safety
/// `object` is exact `bytes` that nobody else knows, and has room for so many.
#[inline(always)]
unsafe fn fill(object: Object, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        let data = ffi::PyBytes_AS_STRING(object).cast::<u8>().cast_mut();
        ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        set_len(object, bytes.len());
    }
}

/// Makes an object end after `len` of its bytes.
///
/// # Safety
/// `bytes` is exact `bytes` that nobody else knows, and has room for so many.
#[inline(always)]
unsafe fn set_len(bytes: Object, len: usize) {
    // SAFETY: the caller's promise; after the room is the place of a NUL.
    unsafe {
        let made = bytes.cast::<ffi::PyBytesObject>();
        (*made).ob_base.ob_size = len.cast_signed();
        #[allow(deprecated)] // as hash() sets it, so it has to be unset
        {
            (*made).ob_shash = -1;
        }
        ffi::PyBytes_AS_STRING(bytes).cast::<u8>().cast_mut().add(len).write(0);
    }
}

/// Memory of objects that are gone, for the next ones of their kind: 64 at most.
pub(crate) struct Spares(UnsafeCell<([Object; 64], usize)>);

// SAFETY: reached with the GIL held only.
unsafe impl Sync for Spares {}

impl Spares {
    /// Only the GIL keeps all others out, and an interpreter that lists its objects would have to
    /// be told.
    pub const KEPT: bool = !cfg!(any(Py_GIL_DISABLED, py_sys_config = "Py_TRACE_REFS"));

    pub const fn new() -> Self {
        Spares(UnsafeCell::new(([ptr::null_mut(); 64], 0)))
    }

    /// What was kept last.
    #[inline(always)]
    pub fn take(&self) -> Option<NonNull<ffi::PyObject>> {
        if !Self::KEPT {
            return None;
        }
        // SAFETY: the GIL is held, and no reference is kept.
        let (spares, count) = unsafe { &mut *self.0.get() };
        let last = count.checked_sub(1)?;
        *count = last;
        spares.get(last).copied().and_then(NonNull::new)
    }

    /// False: there is no place for it.
    #[inline(always)]
    #[must_use]
    pub fn keep(&self, object: Object) -> bool {
        if !Self::KEPT {
            return false;
        }
        // SAFETY: as in `take`.
        let (spares, count) = unsafe { &mut *self.0.get() };
        let Some(slot) = spares.get_mut(*count) else { return false };
        *slot = object;
        *count += 1;
        true
    }
}

/// Payloads of events, owned, of which nobody else knows: a tenth of what an event costs.
///
/// None is larger than half a KiB. Each has room for [`room_for`] its bytes, asked for as such: an
/// allocator other than Python's own, its debugging one first of all, gives not a byte more.
static PAYLOADS: Spares = Spares::new();

/// The class of sizes in which Python's allocator has so many bytes.
#[inline(always)]
const fn size_class(len: usize) -> usize {
    (len + BYTES_HEADER + 15) >> 4
}

/// How many bytes take no more of Python's allocator than `len` do.
#[inline(always)]
const fn room_for(len: usize) -> usize {
    size_class(len) * 16 - BYTES_HEADER
}

/// Whether a payload of this length is kept: not those that exist once, nor the large ones.
#[inline(always)]
const fn may_be_spare(len: usize) -> bool {
    Spares::KEPT && 2 <= len && len < FIRST_CAPACITY
}

/// An object with room for so many bytes, and not much more. Another is given back.
#[inline(always)]
fn take_spare(len: usize) -> Option<Strong> {
    let spare = Strong(PAYLOADS.take()?);
    // SAFETY: exact `bytes`.
    let room = size_class(unsafe { ffi::Py_SIZE(spare.as_ptr()) }.cast_unsigned());
    room.wrapping_sub(size_class(len)).le(&1).then_some(spare)
}

/// Gives a payload back, or keeps it for [`new_bytes`].
///
/// # Safety
/// `bytes` is an owned reference to what [`new_bytes`] or [`BytesBuf::into_bytes`] has made.
#[inline(always)]
pub(crate) unsafe fn drop_bytes(bytes: Object) {
    // SAFETY: the caller's promise.
    unsafe {
        let may_be_kept = ffi::Py_REFCNT(bytes) == 1 && may_be_spare(bytes_of(bytes).len());
        if !(may_be_kept && PAYLOADS.keep(bytes)) {
            ffi::Py_DECREF(bytes);
        }
    }
}

/// A new `str`: UTF-8 with U+FFFD for each maximal subpart that is ill-formed.
#[inline(always)]
pub(crate) fn new_text(bytes: &[u8]) -> Result<Strong, Raised> {
    match utf8::shape(bytes) {
        Some(shape) => new_shaped(bytes, shape),
        None => decode(bytes),
    }
}

/// A new `str` of bytes that are ASCII.
#[inline(always)]
pub(crate) fn new_ascii(bytes: &[u8]) -> Result<Strong, Raised> {
    new_shaped(bytes, Shape { characters: bytes.len(), width: Width::Ascii })
}

/// A new `str` of well-formed UTF-8.
#[inline(always)]
pub(crate) fn new_utf8(bytes: &[u8]) -> Result<Strong, Raised> {
    new_shaped(bytes, utf8::shape_of_utf8(bytes))
}

/// `CPython` widens a text as it goes along: it takes up to twice the time where the text is short
/// or most of it is wide. In a long one of characters of many lengths it is the faster.
const LONG: usize = 1024;

#[inline(always)]
fn new_shaped(bytes: &[u8], shape: Shape) -> Result<Strong, Raised> {
    let Shape { characters, width } = shape;
    let is_dense = bytes.len() * 2 >= characters * 5;
    if bytes.len() < 2 || (bytes.len() > LONG && !is_dense && width != Width::Ascii) {
        return decode(bytes); // which also has the shortest ones ready
    }
    let largest = match width {
        Width::Ascii => 0x7f,
        Width::Latin1 => 0xff,
        Width::Two => 0xffff,
        Width::Four => 0x0010_ffff,
    };
    // SAFETY: a new object with room for so many characters of that width, right behind its
    // header, of which all are written before anybody else sees it.
    unsafe {
        let text = Strong::owned(ffi::PyUnicode_New(characters.cast_signed(), largest))?;
        let data = ffi::PyUnicode_DATA(text.as_ptr());
        match width {
            Width::Ascii => ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()),
            Width::Latin1 => {
                utf8::write_units::<u8>(bytes, from_raw_parts_mut(data.cast(), characters));
            }
            Width::Two => {
                utf8::write_units::<u16>(bytes, from_raw_parts_mut(data.cast(), characters));
            }
            Width::Four => {
                utf8::write_units::<u32>(bytes, from_raw_parts_mut(data.cast(), characters));
            }
        }
        Ok(text)
    }
}

/// Whether a `str` is these bytes in UTF-8.
///
/// # Safety
/// `text` is a live `str`.
#[inline(always)]
pub(crate) unsafe fn is_text(text: Object, bytes: &[u8]) -> bool {
    // SAFETY: the caller's promise; what is read stays valid as long as the text lives.
    unsafe {
        // Spares a call; from 3.14 on nobody outside of CPython can ask.
        #[cfg(not(Py_3_14))]
        if ffi::PyUnicode_IS_COMPACT_ASCII(text) != 0 {
            let len = ffi::PyUnicode_GET_LENGTH(text);
            return *bytes
                == *from_raw_parts(ffi::PyUnicode_DATA(text).cast::<u8>(), len.unsigned_abs());
        }
        let mut len = 0;
        let utf8 = ffi::PyUnicode_AsUTF8AndSize(text, &raw mut len);
        if utf8.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        *bytes == *from_raw_parts(utf8.cast::<u8>(), len.unsigned_abs())
    }
}

fn decode(bytes: &[u8]) -> Result<Strong, Raised> {
    // SAFETY: pointer and length are those of a slice; the handler's name is a C string.
    unsafe {
        Strong::owned(ffi::PyUnicode_DecodeUTF8(
            bytes.as_ptr().cast(),
            bytes.len().cast_signed(),
            c"replace".as_ptr(),
        ))
    }
}

unsafe extern "C" {
    /// Part of `CPython`'s API by its documentation, though not by its name.
    fn _PyBytes_Resize(bytes: *mut Object, size: ffi::Py_ssize_t) -> std::ffi::c_int;
}

/// A `bytes` object of which nobody else knows yet, growing.
///
/// Doubling: amortized linear, and what is not written to costs no memory.
pub(crate) struct BytesBuf {
    /// Null, or an exact `bytes` object with one reference; its size is the capacity.
    object: Object,
    len: usize,
}

/// The length of a buffer whose bytes are gone.
const LOST: usize = usize::MAX;

/// What `bytes` take beside their bytes, the NUL at their end included.
const BYTES_HEADER: usize = offset_of!(ffi::PyBytesObject, ob_sval) + 1;

/// With the header, the largest block of Python's small-object allocator.
const FIRST_CAPACITY: usize = 512 - BYTES_HEADER;

impl Default for BytesBuf {
    #[inline(always)]
    fn default() -> Self {
        BytesBuf { object: ptr::null_mut(), len: 0 }
    }
}

impl BytesBuf {
    #[inline(always)]
    fn capacity(&self) -> usize {
        if self.object.is_null() {
            return 0;
        }
        // SAFETY: not null, so a `bytes` object.
        unsafe { ffi::Py_SIZE(self.object).unsigned_abs() }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), OutOfMemory> {
        let capacity = wanted.max(self.capacity().saturating_mul(2)).max(FIRST_CAPACITY);
        let capacity = isize::try_from(capacity).map_err(|_| OutOfMemory)?;
        // SAFETY: the object is exact, has one reference, and nobody else knows it. On
        // failure it is freed and set to null; the error is told as `OutOfMemory`, now and
        // whenever more is to be added.
        unsafe {
            if self.object.is_null() {
                self.object = ffi::PyBytes_FromStringAndSize(ptr::null(), capacity);
            } else {
                _PyBytes_Resize(&raw mut self.object, capacity);
            }
            if self.object.is_null() {
                self.len = LOST;
                ffi::PyErr_Clear();
                return Err(OutOfMemory);
            }
        }
        Ok(())
    }

    /// The finished object.
    pub fn into_bytes(mut self) -> Result<Strong, Raised> {
        if self.object.is_null() {
            if self.len == LOST {
                // SAFETY: sets an exception.
                unsafe { ffi::PyErr_NoMemory() };
                return Err(Raised);
            }
            return new_bytes(&[]);
        }
        let mut object = std::mem::replace(&mut self.object, ptr::null_mut());
        // SAFETY: as in `grow`; on failure the object is freed and the error set.
        unsafe {
            if may_be_spare(self.len) {
                let room = room_for(self.len);
                if ffi::Py_SIZE(object).unsigned_abs() != room {
                    _PyBytes_Resize(&raw mut object, room.cast_signed());
                }
                let made = Strong::owned(object)?;
                set_len(made.as_ptr(), self.len);
                return Ok(made);
            }
            if ffi::Py_SIZE(object).unsigned_abs() != self.len {
                _PyBytes_Resize(&raw mut object, self.len.cast_signed());
            }
            Strong::owned(object)
        }
    }
}

impl PayloadBuf for BytesBuf {
    #[inline(always)]
    fn extend(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        self.reserve(bytes.len())?;
        if !bytes.is_empty() {
            // SAFETY: `reserve` has made room for so many bytes after `len`, and
            // memory that nobody else knows cannot overlap `bytes`.
            unsafe {
                let end = ffi::PyBytes_AS_STRING(self.object).cast::<u8>().cast_mut().add(self.len);
                // A byte at a time is how some streams arrive: not worth a call of memcpy.
                if let [byte] = bytes {
                    end.write(*byte);
                } else {
                    ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
                }
            }
            self.len += bytes.len();
        }
        Ok(())
    }

    #[inline(always)]
    fn reserve(&mut self, additional: usize) -> Result<(), OutOfMemory> {
        if self.len == LOST {
            return Err(OutOfMemory);
        }
        let wanted = self.len.checked_add(additional).ok_or(OutOfMemory)?;
        if wanted > self.capacity() { self.grow(wanted) } else { Ok(()) }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[u8] {
        if self.object.is_null() {
            return &[];
        }
        // SAFETY: the first `len` bytes have been written.
        unsafe { from_raw_parts(ffi::PyBytes_AS_STRING(self.object).cast::<u8>(), self.len) }
    }
}

impl Drop for BytesBuf {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: owned, or null.
        unsafe { ffi::Py_XDECREF(self.object) }
    }
}

/// A tuple with one item.
#[inline(always)]
pub(crate) fn tuple_of_one(item: Strong) -> Result<Strong, Raised> {
    // SAFETY: the tuple is new, and the one slot of it is filled once.
    unsafe {
        let tuple = Strong::owned(ffi::PyTuple_New(1))?;
        ffi::PyTuple_SET_ITEM(tuple.as_ptr(), 0, item.into_ptr());
        Ok(tuple)
    }
}

/// New objects on their way into a tuple; the first 64 need no memory of their own.
pub(crate) struct Batch {
    first: [MaybeUninit<Object>; 64],
    len: usize,
    more: ManuallyDrop<Vec<Strong>>,
}

impl Batch {
    #[inline(always)]
    pub fn new() -> Self {
        let first = [const { MaybeUninit::uninit() }; 64];
        Batch { first, len: 0, more: ManuallyDrop::new(Vec::new()) }
    }

    #[inline(always)]
    pub fn push(&mut self, object: Strong) {
        if let Some(slot) = self.first.get_mut(self.len) {
            slot.write(object.into_ptr());
            self.len += 1;
        } else {
            self.push_more(object);
        }
    }

    #[cold]
    fn push_more(&mut self, object: Strong) {
        self.more.push(object);
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tuple of what was pushed; the batch is empty then.
    #[inline(always)]
    pub fn take_tuple(&mut self) -> Result<Strong, Raised> {
        let len = self.len + self.more.len();
        // SAFETY: the tuple is new and has room for `len`; each slot is filled once, with a
        // reference that is given away, and the first `self.len` of `first` are written.
        unsafe {
            let tuple = Strong::owned(ffi::PyTuple_New(len.cast_signed()))?;
            for (at, slot) in self.first[..self.len].iter().enumerate() {
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), at.cast_signed(), slot.assume_init());
            }
            for (at, object) in self.more.drain(..).enumerate() {
                let at = (self.len + at).cast_signed();
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), at, object.into_ptr());
            }
            self.len = 0;
            drop(std::mem::take(&mut *self.more));
            Ok(tuple)
        }
    }

    #[cold]
    fn drop_all(&mut self) {
        for slot in &self.first[..std::mem::take(&mut self.len)] {
            // SAFETY: the first `len` slots hold references that are owned.
            unsafe { ffi::Py_DECREF(slot.assume_init()) }
        }
        drop(std::mem::take(&mut *self.more));
    }
}

impl Drop for Batch {
    #[inline(always)]
    fn drop(&mut self) {
        if self.len != 0 {
            self.drop_all(); // else `more` is empty too, and has no memory
        }
    }
}

/// The bytes of any C-contiguous buffer, for as long as it is held.
pub(crate) struct Chunk {
    bytes: *const u8,
    len: usize,
    /// None for an exact `bytes` object, which needs no view.
    view: Option<Box<ffi::Py_buffer>>,
}

impl Chunk {
    /// # Safety
    /// `object` is live and outlives the chunk.
    #[inline(always)]
    pub unsafe fn new(object: Object) -> Result<Self, Raised> {
        // SAFETY: the caller's promise.
        unsafe {
            if ffi::PyBytes_CheckExact(object) != 0 {
                let bytes = bytes_of(object);
                return Ok(Chunk { bytes: bytes.as_ptr(), len: bytes.len(), view: None });
            }
            Self::view(object)
        }
    }

    #[cold]
    unsafe fn view(object: Object) -> Result<Self, Raised> {
        // SAFETY: `object` is live; the view is filled before it is read, and released on drop.
        unsafe {
            if ffi::PyUnicode_Check(object) != 0 || ffi::PyObject_CheckBuffer(object) == 0 {
                return Err(errors::not_bytes(object));
            }
            let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed().assume_init());
            if ffi::PyObject_GetBuffer(object, &raw mut *view, ffi::PyBUF_SIMPLE) < 0 {
                return Err(Raised);
            }
            let len = view.len.unsigned_abs();
            Ok(Chunk { bytes: view.buf.cast(), len, view: Some(view) })
        }
    }

    /// The bytes.
    ///
    /// Another thread may write to a buffer that is not `bytes` while it is read (shared
    /// memory, say). No position is ever derived from two reads of one byte without a
    /// check, so that gives wrong text at worst, as the writer asked for.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the buffer's owner keeps so many bytes there until the release.
        unsafe { from_raw_parts(self.bytes, self.len) }
    }
}

impl Drop for Chunk {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(view) = &mut self.view {
            // SAFETY: filled by `PyObject_GetBuffer`, released once.
            unsafe { ffi::PyBuffer_Release(&raw mut **view) }
        }
    }
}

/// Runs `body` behind a C entry: a panic becomes a `SeamstreamError`, null says so.
#[inline(always)]
pub(crate) fn guard(body: impl FnOnce() -> Result<Strong, Raised>) -> Object {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(object)) => object.into_ptr(),
        Ok(Err(Raised)) => ptr::null_mut(),
        Err(panic) => {
            // What the panic carries may itself panic when dropped.
            std::mem::forget(panic);
            errors::panicked();
            ptr::null_mut()
        }
    }
}

/// As [`guard`], for what is written in the safe layer.
pub(crate) fn guard_py(body: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyAny>>) -> Object {
    guard(|| {
        held(|py| match body(py) {
            Ok(object) => Ok(Strong::from_bound(object)),
            Err(error) => {
                error.restore(py);
                Err(Raised)
            }
        })
    })
}

/// Runs `body` in the safe layer, for which the GIL is held at every entry of this crate.
///
/// While the interpreter goes down the layer refuses to attach, though Python still calls
/// finalizers and deallocates: then it is told that it is attached, which is true.
pub(crate) fn held<R>(body: impl FnOnce(Python<'_>) -> R) -> R {
    let mut body = Some(body);
    let attached = Python::try_attach(|py| body.take().map(|body| body(py)));
    match (attached.flatten(), body) {
        (Some(result), _) => result,
        // SAFETY: Python calls the entries of this crate with the GIL held.
        (None, Some(body)) => body(unsafe { Python::assume_attached() }),
        (None, None) => unreachable!("a body that ran has a result"),
    }
}
