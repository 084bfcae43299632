//! Streams that arrive in pieces, put together again.
//!
//! The core of seamstream: an event-stream parser over bytes ([`sse`]) and the
//! UTF-8 decoding that belongs to a stream and not to a chunk ([`utf8`]). It
//! does no I/O and knows nothing of Python; the binding does.
//!
//! Use it where bytes come cut anywhere. Where a whole body is in memory and
//! known to be well-formed, splitting it at blank lines is simpler.

#![deny(unsafe_code)]

pub mod get;
pub mod json_stream;
mod scan;
mod scan_json;
pub mod sse;
pub mod utf8;

/// Memory for a payload could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// A buffer in which a payload that spans chunks grows where it will stay.
pub trait PayloadBuf: Default {
    /// Appends `bytes`, in amortized linear time.
    ///
    /// # Errors
    /// [`OutOfMemory`]; what was collected may be lost, and then nothing can be added any more.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory>;

    /// Makes room for `additional` bytes at once.
    ///
    /// # Errors
    /// As for [`extend`](Self::extend).
    fn reserve(&mut self, additional: usize) -> Result<(), OutOfMemory>;

    /// What has been collected.
    fn as_slice(&self) -> &[u8];
}

impl PayloadBuf for Vec<u8> {
    #[inline]
    fn extend(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        self.try_reserve(bytes.len()).map_err(|_| OutOfMemory)?;
        self.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn reserve(&mut self, additional: usize) -> Result<(), OutOfMemory> {
        self.try_reserve(additional).map_err(|_| OutOfMemory)
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        self
    }
}
