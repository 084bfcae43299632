//! What the decoders have in common: who may come in, their states, and what iterators need.

use crate::errors;
use crate::event::{self, shared};
use crate::raw::{Batch, Chunk, Object, Raised, Strong, bytes_of, held, tuple_of_one};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use seamstream::sse::Error;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Items that an iterator gives next; with nothing in it, it is None.
///
/// In a box: 24 bytes that an idle decoder does not need.
#[allow(clippy::box_collection)]
pub(crate) type More = Option<Box<VecDeque<Strong>>>;

/// A parser that makes Python objects of what it finds.
pub(crate) trait Stream {
    /// Parses the first item of a chunk and says how much of it that took, if that is simple.
    /// None: nothing was done.
    fn feed_plain(&mut self, chunk: &[u8]) -> Result<Option<(usize, Strong)>, Raised>;

    /// Parses a chunk into the batch.
    fn feed(&mut self, chunk: &[u8], batch: &mut Batch) -> Result<(), Error<Raised>>;

    /// Parses a chunk to its first item, and says how much of it that took. What the same byte
    /// settles besides goes to `more`.
    fn feed_one(
        &mut self,
        chunk: &[u8],
        more: &mut More,
    ) -> Result<(usize, Option<Strong>), Error<Raised>>;

    /// The end of the stream: its last items into the batch.
    fn close(&mut self, batch: &mut Batch) -> Result<(), Error<Raised>>;

    /// Drops what is open: the stream cannot go on.
    fn abandon(&mut self);

    fn max_event_bytes(&self) -> usize;

    fn at_boundary(&self) -> bool;

    /// What the items share, as soon as there is any.
    fn context(&self) -> Option<&Strong>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// Items came out before an error; the next call raises it.
    Held,
    Failed,
    Closed,
}

/// What an iterator has not taken yet of its chunk.
#[derive(Default)]
struct Rest {
    /// The iterator; 0 when there is none.
    owner: u64,
    /// An exact `bytes` chunk, or the tuple of items of another buffer.
    chunk: Option<Strong>,
    /// What of it is used.
    pos: usize,
    /// The next items, when they had to be looked at, or came with the one before.
    ahead: More,
}

/// A stream, its state, and what its iterator has in hand.
pub(crate) struct Machine<S> {
    pub stream: S,
    pub state: State,
    failure: Option<Box<PyErr>>,
    rest: Rest,
    closed_at_boundary: bool,
}

impl<S: Stream> Machine<S> {
    /// Feeds a chunk and gives its items as a tuple.
    #[inline(always)]
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Strong, Raised> {
        match self.stream.feed_plain(chunk) {
            Ok(Some((used, item))) if used == chunk.len() => match tuple_of_one(item) {
                Ok(items) => Ok(items),
                Err(Raised) => self.lost(),
            },
            first => self.feed_all(chunk, first),
        }
    }

    /// Feeds a chunk of which the first item may have been found.
    #[inline(never)]
    fn feed_all(
        &mut self,
        chunk: &[u8],
        first: Result<Option<(usize, Strong)>, Raised>,
    ) -> Result<Strong, Raised> {
        let mut batch = Batch::new();
        let fed = first.map_err(Error::Sink).and_then(|first| {
            let mut used = 0;
            if let Some((len, item)) = first {
                used = len;
                batch.push(item);
            }
            self.stream.feed(chunk.get(used..).unwrap_or_default(), &mut batch)
        });
        match fed {
            Ok(()) if batch.is_empty() => Ok(shared().empty_tuple.clone()),
            Ok(()) => self.hand_out(&mut batch),
            Err(error) => self.stopped(error, &mut batch),
        }
    }

    /// The tuple of what was found.
    #[inline(always)]
    fn hand_out(&mut self, batch: &mut Batch) -> Result<Strong, Raised> {
        batch.take_tuple().or_else(|Raised| self.lost())
    }

    /// Without memory for their tuple items are lost, and nobody may go on as if they had come out.
    #[cold]
    fn lost(&mut self) -> Result<Strong, Raised> {
        self.stream.abandon();
        self.failure = None;
        self.state = State::Failed;
        Err(Raised)
    }

    /// The parser cannot go on: nothing complete is lost, so items come before the error.
    #[cold]
    fn stopped(&mut self, error: Error<Raised>, batch: &mut Batch) -> Result<Strong, Raised> {
        let failure = self.fail(error);
        if batch.is_empty() {
            held(|py| failure.restore(py));
            return Err(Raised);
        }
        self.state = State::Held;
        self.failure = Some(Box::new(failure));
        self.hand_out(batch)
    }

    #[cold]
    fn fail(&mut self, error: Error<Raised>) -> PyErr {
        let limit = self.stream.max_event_bytes();
        let failure = held(|py| errors::from_core(py, error, limit));
        self.stream.abandon();
        self.state = State::Failed;
        failure
    }

    /// Raises what keeps the stream from going on.
    #[inline(always)]
    pub fn check_open(&mut self) -> Result<(), Raised> {
        if self.state == State::Open { Ok(()) } else { self.not_open() }
    }

    #[cold]
    fn not_open(&mut self) -> Result<(), Raised> {
        let failure = self.failure.take();
        let how = if self.state == State::Closed { "is closed" } else { "has failed" };
        if self.state == State::Held {
            self.state = State::Failed;
        }
        held(|py| match failure {
            Some(failure) => failure.restore(py),
            None => {
                let message = format!("the decoder {how}; reset() opens it for a new connection");
                errors::state(py, &message).restore(py);
            }
        });
        Err(Raised)
    }

    /// The end of the stream: a tuple of its last items.
    pub fn close(&mut self) -> Result<Strong, Raised> {
        if self.state == State::Held {
            self.not_open()?;
        }
        if self.state != State::Open {
            return Ok(shared().empty_tuple.clone());
        }
        self.state = State::Closed;
        self.closed_at_boundary = self.stream.at_boundary();
        let mut batch = Batch::new();
        match self.stream.close(&mut batch) {
            Ok(()) => self.hand_out(&mut batch),
            Err(error) => self.stopped(error, &mut batch),
        }
    }

    /// Whether nothing is open; as it was before `close`, and never after an error.
    pub fn at_boundary(&self) -> bool {
        match self.state {
            State::Open => self.stream.at_boundary(),
            State::Closed => self.closed_at_boundary,
            State::Held | State::Failed => false,
        }
    }

    /// Opens for a new connection with `stream`. What is dropped may run the caller's code, so
    /// it is given back, to be dropped when nobody is inside any more.
    #[must_use]
    pub fn reopen(&mut self, stream: S) -> Self {
        std::mem::replace(self, Machine::new(stream))
    }

    pub fn new(stream: S) -> Self {
        Machine {
            stream,
            state: State::Open,
            failure: None,
            rest: Rest::default(),
            closed_at_boundary: false,
        }
    }

    /// Parses on in an iterator's chunk, to its next item.
    #[inline(always)]
    fn parse_rest(&mut self) -> Result<Option<Strong>, PyErr> {
        let Some(chunk) = &self.rest.chunk else { return Ok(None) };
        // SAFETY: `rest.chunk` is exact `bytes` here; it is let go of below, after the slice's
        // last use, or when nobody is inside any more.
        let bytes = unsafe { bytes_of(chunk.as_ptr()) };
        let rest = bytes.get(self.rest.pos..).unwrap_or_default();
        let found = match self.stream.feed_plain(rest) {
            Ok(Some((used, item))) => Ok((used, Some(item))),
            Ok(None) => self.stream.feed_one(rest, &mut self.rest.ahead),
            Err(raised) => Err(Error::Sink(raised)),
        };
        match found {
            Ok((used, item)) => {
                self.rest.pos += used;
                if self.rest.pos == bytes.len() && self.rest.ahead.is_none() {
                    self.rest.owner = 0;
                    self.rest.chunk = None;
                }
                Ok(item)
            }
            Err(error) => {
                self.rest.ahead = None;
                Err(self.fail(error))
            }
        }
    }

    /// The next item of what iterator `owner` has in hand.
    #[inline(always)]
    fn next_of(&mut self, owner: u64) -> Result<Option<Strong>, Raised> {
        if self.rest.owner != owner {
            return Ok(None);
        }
        if self.rest.ahead.is_some() {
            return Ok(self.take_ahead());
        }
        if let Some(item) = self.take_from_tuple() {
            return Ok(Some(item));
        }
        if self.state == State::Held {
            self.rest = Rest::default();
            self.not_open()?;
        }
        self.parse_rest().map_err(|failure| {
            self.rest = Rest::default();
            held(|py| failure.restore(py));
            Raised
        })
    }

    #[cold]
    fn take_ahead(&mut self) -> Option<Strong> {
        let ahead = self.rest.ahead.as_mut()?;
        let item = ahead.pop_front();
        if ahead.is_empty() {
            self.rest.ahead = None;
            if self.chunk_is_used() {
                self.rest = Rest::default();
            }
        }
        item
    }

    /// Whether nothing of the chunk is left to parse.
    fn chunk_is_used(&self) -> bool {
        self.rest.chunk.as_ref().is_none_or(|chunk| {
            // SAFETY: a live object; `bytes` are asked for their size only.
            unsafe {
                ffi::PyBytes_CheckExact(chunk.as_ptr()) != 0
                    && bytes_of(chunk.as_ptr()).len() == self.rest.pos
            }
        })
    }

    /// The next of the items that were parsed on arrival. The tuple ends as no chunk.
    #[inline(always)]
    fn take_from_tuple(&mut self) -> Option<Strong> {
        let chunk = self.rest.chunk.as_ref()?;
        // SAFETY: a live object; a tuple's items are read within its size.
        unsafe {
            if ffi::PyTuple_CheckExact(chunk.as_ptr()) == 0 {
                return None;
            }
            let at = self.rest.pos.cast_signed();
            if at < ffi::PyTuple_GET_SIZE(chunk.as_ptr()) {
                self.rest.pos += 1;
                return Some(Strong::borrowed(ffi::PyTuple_GET_ITEM(chunk.as_ptr(), at)));
            }
        }
        self.rest.chunk = None;
        if self.state != State::Held {
            self.rest = Rest::default();
        }
        None
    }

    /// Uses up what an iterator has left, unless there is an item or an error in it.
    #[inline(always)]
    pub fn settle(&mut self) -> Result<(), Raised> {
        if self.rest.owner == 0 { Ok(()) } else { self.settle_rest() }
    }

    #[cold]
    fn settle_rest(&mut self) -> Result<(), Raised> {
        if self.rest.ahead.is_none() {
            let owner = self.rest.owner;
            let looked_at = match self.take_from_tuple() {
                Some(item) => Ok(Some(item)),
                None if self.state == State::Held => Ok(None),
                None => self.parse_rest(),
            };
            match looked_at {
                Ok(None) if self.state != State::Held => return Ok(()),
                Ok(None) => {}
                Ok(Some(item)) => {
                    self.rest.owner = owner;
                    self.rest.ahead.get_or_insert_default().push_front(item);
                }
                Err(failure) => {
                    self.rest.chunk = None;
                    self.state = State::Held;
                    self.failure = Some(Box::new(failure));
                }
            }
        }
        held(|py| {
            errors::state(py, "an iterator has events left in its chunk").restore(py);
        });
        Err(Raised)
    }

    /// Iterator `owner` goes away or is done: what it has left must not be lost in silence.
    fn release(&mut self, owner: u64) {
        if self.rest.owner == owner && self.settle().is_err() {
            // SAFETY: an exception is set, and nobody is there to take it.
            unsafe { ffi::PyErr_Clear() };
            self.rest = Rest::default();
            self.failure = None;
            self.stream.abandon();
            self.state = State::Failed;
        }
    }

    /// Gives iterator `owner` its next chunk.
    #[inline(always)]
    fn take_chunk(&mut self, owner: u64, chunk: Strong) -> Result<(), Raised> {
        self.settle()?;
        self.check_open()?;
        // SAFETY: a live object.
        if unsafe { ffi::PyBytes_CheckExact(chunk.as_ptr()) } != 0 {
            self.hold(owner, chunk);
            return Ok(());
        }
        // SAFETY: `chunk` outlives the view.
        let view = unsafe { Chunk::new(chunk.as_ptr())? };
        let items = self.feed(view.bytes())?;
        self.hold(owner, items);
        Ok(())
    }

    /// Puts something new in an iterator's hand, where nothing is left.
    #[inline(always)]
    fn hold(&mut self, owner: u64, chunk: Strong) {
        self.rest.owner = owner;
        self.rest.chunk = Some(chunk);
        self.rest.pos = 0;
    }
}

/// Somebody is inside.
const BUSY: u8 = 0b01;
/// The iterator that got the last chunk went away while somebody was inside.
const LEFT: u8 = 0b10;

/// A machine that lets one user in at a time.
pub(crate) struct Cell<S> {
    /// Bits: [`BUSY`], [`LEFT`].
    flags: AtomicU8,
    /// The low half of the number of the iterator that got the last chunk: all of it would make
    /// each idle decoder larger.
    last_owner: AtomicU32,
    machine: UnsafeCell<Machine<S>>,
}

#[allow(clippy::cast_possible_truncation)] // which is the point
#[inline(always)]
const fn low_half(owner: u64) -> u32 {
    owner as u32
}

// SAFETY: `machine` is reached through `enter`, which lets one user in at a time.
unsafe impl<S> Sync for Cell<S> {}
// SAFETY: parsers and references are used with the GIL held only.
unsafe impl<S> Send for Cell<S> {}

/// The one user of a machine, until dropped.
pub(crate) struct Entered<'a, S: Stream>(&'a Cell<S>);

impl<S: Stream> Deref for Entered<'_, S> {
    type Target = Machine<S>;

    #[inline(always)]
    fn deref(&self) -> &Machine<S> {
        // SAFETY: the busy flag keeps all others out.
        unsafe { &*self.0.machine.get() }
    }
}

impl<S: Stream> DerefMut for Entered<'_, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Machine<S> {
        // SAFETY: as above.
        unsafe { &mut *self.0.machine.get() }
    }
}

impl<S: Stream> Drop for Entered<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Half-done work must not be gone on with.
            self.state = State::Failed;
            self.rest = Rest::default();
            self.stream.abandon();
        }
        self.0.let_out();
    }
}

impl<S: Stream> Entered<'_, S> {
    /// As if dropped where no panic is under way, which costs to find out.
    #[inline(always)]
    fn leave(self) {
        self.0.let_out();
        std::mem::forget(self);
    }
}

impl<S: Stream> Cell<S> {
    pub fn new(stream: S) -> Self {
        Cell {
            flags: AtomicU8::new(0),
            last_owner: AtomicU32::new(0),
            machine: UnsafeCell::new(Machine::new(stream)),
        }
    }

    /// Lets the caller in, or sets the exception that says who is in.
    #[inline(always)]
    pub fn enter(&self) -> Result<Entered<'_, S>, Raised> {
        self.enter_if_free().ok_or_else(|| {
            held(|py| errors::busy(py).restore(py));
            Raised
        })
    }

    /// Lets the caller in if nobody is.
    #[inline(always)]
    pub fn enter_if_free(&self) -> Option<Entered<'_, S>> {
        // With the GIL no two threads are here at once: a plain read and write is exact.
        #[cfg(not(Py_GIL_DISABLED))]
        let flags = {
            let flags = self.flags.load(Ordering::Relaxed);
            self.flags.store(flags | BUSY, Ordering::Relaxed);
            flags
        };
        #[cfg(Py_GIL_DISABLED)]
        let flags = self.flags.fetch_or(BUSY, Ordering::Acquire);
        if flags == 0 { Some(Entered(self)) } else { self.enter_with(flags) }
    }

    #[cold]
    fn enter_with(&self, flags: u8) -> Option<Entered<'_, S>> {
        if flags & BUSY != 0 {
            return None;
        }
        let mut entered = Entered(self);
        self.flags.fetch_and(!LEFT, Ordering::Relaxed);
        // What is in hand came last, so that it is that iterator's, if anybody's.
        let owner = entered.rest.owner;
        if low_half(owner) == self.last_owner.load(Ordering::Relaxed) {
            entered.release(owner);
        }
        Some(entered)
    }

    #[inline(always)]
    fn let_out(&self) {
        // Whoever is inside is alone to write, but for `LEFT`, which may be set meanwhile.
        #[cfg(not(Py_GIL_DISABLED))]
        self.flags.store(self.flags.load(Ordering::Relaxed) & !BUSY, Ordering::Relaxed);
        #[cfg(Py_GIL_DISABLED)]
        self.flags.fetch_and(!BUSY, Ordering::Release);
    }

    pub fn enter_py(&self, py: Python<'_>) -> PyResult<Entered<'_, S>> {
        self.enter().map_err(|Raised| PyErr::fetch(py))
    }

    /// The stream, if it is open and nobody has it or an iterator's chunk in hand.
    ///
    /// For work that runs no Python code and cannot panic: nothing says that somebody is inside.
    ///
    /// # Safety
    /// The caller does no other work with it.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn idle_stream(&self) -> Option<&mut S> {
        if cfg!(Py_GIL_DISABLED) || self.flags.load(Ordering::Relaxed) & BUSY != 0 {
            return None;
        }
        // SAFETY: nobody is inside, and with the GIL nobody comes in before the caller is done.
        let machine = unsafe { &mut *self.machine.get() };
        (machine.state == State::Open && machine.rest.owner == 0).then_some(&mut machine.stream)
    }

    /// Shows `loads` to the garbage collector, if no item has it too.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: one pointer is read; a traversal has the GIL and changes nothing.
        let context = unsafe { (*self.machine.get()).stream.context() };
        let Some(loads) = context.and_then(event::sole_loads) else { return Ok(()) };
        // SAFETY: a live object; the reference that is made of it is not given back.
        let loads = unsafe {
            ManuallyDrop::new(Bound::from_owned_ptr(Python::assume_attached(), loads).unbind())
        };
        visit.call(&*loads)
    }

    /// Drops `loads` for the garbage collector, if no item has it too.
    pub fn clear(&self) {
        // When nobody is inside any more: it may run the caller's code.
        let loads = self
            .enter_if_free()
            .and_then(|machine| machine.stream.context().and_then(event::take_loads));
        drop(loads);
    }

    /// `feed` of the Python class.
    #[inline(always)]
    pub fn feed_object(&self, chunk: Object) -> Result<Strong, Raised> {
        // SAFETY: Python keeps the argument of `feed` alive, exact `bytes` or not.
        unsafe {
            if ffi::PyBytes_CheckExact(chunk) == 0 {
                return self.feed_buffer(chunk);
            }
            self.feed_bytes(bytes_of(chunk))
        }
    }

    /// The same with what is in exact `bytes`.
    #[inline(always)]
    fn feed_bytes(&self, chunk: &[u8]) -> Result<Strong, Raised> {
        let mut machine = self.enter()?;
        machine.settle()?;
        machine.check_open()?;
        let items = machine.feed(chunk)?;
        machine.leave();
        Ok(items)
    }

    /// The same with any other buffer.
    #[cold]
    fn feed_buffer(&self, chunk: Object) -> Result<Strong, Raised> {
        let mut machine = self.enter()?;
        machine.settle()?;
        machine.check_open()?;
        // SAFETY: Python keeps the argument of `feed` alive.
        let chunk = unsafe { Chunk::new(chunk)? };
        machine.feed(chunk.bytes())
    }

    /// `close` of the Python class.
    pub fn close_py<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut machine = self.enter_py(py)?;
        let closed = machine.settle().and_then(|()| machine.close());
        Ok(closed.map_err(|Raised| PyErr::fetch(py))?.bind(py))
    }

    /// Raises when an iterator has items left.
    pub fn check_free(&self, py: Python<'_>) -> PyResult<()> {
        self.enter_py(py)?.settle().map_err(|Raised| PyErr::fetch(py))
    }
}

/// What an iterator asks of its decoder, whichever that is.
pub(crate) trait Pulled {
    /// The next item of what iterator `owner` has in hand. The first result is whose turn it is.
    fn next(&self, owner: u64) -> Result<Result<Option<Strong>, Raised>, Raised>;

    fn take_chunk(&self, owner: u64, chunk: Strong) -> Result<(), Raised>;

    /// The source has ended: a tuple of the last items.
    fn end(&self) -> Result<Strong, Raised>;

    fn release(&self, owner: u64);
}

impl<S: Stream> Pulled for Cell<S> {
    #[inline]
    fn next(&self, owner: u64) -> Result<Result<Option<Strong>, Raised>, Raised> {
        let mut machine = self.enter()?;
        if machine.rest.owner != owner {
            machine.settle()?;
        }
        let item = machine.next_of(owner);
        machine.leave();
        Ok(item)
    }

    #[inline]
    fn take_chunk(&self, owner: u64, chunk: Strong) -> Result<(), Raised> {
        let mut machine = self.enter()?;
        machine.take_chunk(owner, chunk)?;
        self.last_owner.store(low_half(owner), Ordering::Relaxed);
        // Whoever went away meanwhile had nothing in hand, or there would have been no room for
        // this; what is there now is of somebody who is still here.
        self.flags.store(BUSY, Ordering::Relaxed);
        machine.leave();
        Ok(())
    }

    fn end(&self) -> Result<Strong, Raised> {
        let mut machine = self.enter()?;
        machine.settle()?;
        machine.close()
    }

    fn release(&self, owner: u64) {
        match self.enter_if_free() {
            Some(mut machine) => machine.release(owner),
            // Somebody further up is inside, who may have no idea: whoever comes next sees to it.
            None if self.last_owner.load(Ordering::Relaxed) == low_half(owner) => {
                self.flags.fetch_or(LEFT, Ordering::Relaxed);
            }
            None => {}
        }
    }
}
