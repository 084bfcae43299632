//! UTF-8 that belongs to a stream: characters cut by a chunk come out whole.
//!
//! WHATWG Encoding, "UTF-8 decoder": each maximal subpart of an ill-formed
//! sequence becomes one U+FFFD. A sequence that a chunk cuts is held (three bytes
//! at most) until the next chunk, or the end, decides it.

use std::borrow::Cow;
use std::mem::MaybeUninit;

/// How many U+FFFD decoding puts into the text of `bytes`.
///
/// A U+FFFD that was sent (`EF BF BD`) does not count.
#[must_use]
pub fn count_replaced(bytes: &[u8]) -> u64 {
    if simdutf8::basic::from_utf8(bytes).is_ok() {
        return 0;
    }
    bytes.utf8_chunks().map(|chunk| u64::from(!chunk.invalid().is_empty())).sum()
}

/// What a text takes in memory where all its characters are as wide as the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many characters it has.
    pub characters: usize,
    /// The largest of the four widths below that some character needs.
    pub width: Width,
}

/// The range that all characters of a text are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// Up to U+007F.
    Ascii,
    /// Up to U+00FF.
    Latin1,
    /// Up to U+FFFF.
    Two,
    /// All of Unicode.
    Four,
}

/// The shape of well-formed UTF-8, or `None` if `bytes` are not.
#[must_use]
pub fn shape(bytes: &[u8]) -> Option<Shape> {
    if bytes.is_ascii() {
        return Some(Shape { characters: bytes.len(), width: Width::Ascii });
    }
    simdutf8::basic::from_utf8(bytes).ok()?;
    Some(shape_of_utf8(bytes))
}

/// The shape of what is well-formed UTF-8.
#[must_use]
pub fn shape_of_utf8(bytes: &[u8]) -> Shape {
    // In sums of bytes, which the compiler takes many of at once.
    let mut characters = 0;
    let mut largest = 0;
    for part in bytes.chunks(255) {
        let begins = |byte: &u8| u8::from(byte.cast_signed() >= -0x40);
        characters += usize::from(part.iter().map(begins).fold(0_u8, u8::wrapping_add));
        largest = part.iter().fold(largest, |largest: u8, &byte| largest.max(byte));
    }
    // By the first byte of the widest character.
    let width = match largest {
        0x00..0x80 => Width::Ascii,
        0x80..0xc4 => Width::Latin1,
        0xc4..0xf0 => Width::Two,
        0xf0.. => Width::Four,
    };
    Shape { characters, width }
}

/// What the characters of a text are written as: one of them each.
pub trait Unit: Copy + From<u8> {
    /// The unit of this code point, which fits.
    fn of(code: u32) -> Self;
}

macro_rules! units {
    ($($unit:ty),*) => {$(
        impl Unit for $unit {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)] // the text's width says that it fits
            fn of(code: u32) -> Self {
                code as $unit
            }
        }
    )*};
}
units!(u8, u16, u32);

/// Writes well-formed UTF-8, of which `shape` told the width and the number of characters.
///
/// All of `out` is written; of other input what comes has no meaning. A run of characters of one
/// length has a loop of its own: what costs is a branch that nobody can foretell.
pub fn write_units<T: Unit>(bytes: &[u8], out: &mut [MaybeUninit<T>]) {
    const BLOCK: usize = 16;
    let low = |byte: u8| u32::from(byte & 0x3f);
    let mut rest = bytes;
    let mut at = 0;
    loop {
        let before = at;
        while let Some((block, after)) = rest.split_first_chunk::<BLOCK>()
            && block.is_ascii()
            && let Some(units) = out.get_mut(at..at + BLOCK)
        {
            for (unit, &byte) in units.iter_mut().zip(block) {
                unit.write(T::from(byte));
            }
            (rest, at) = (after, at + BLOCK);
        }
        while let [a @ ..0x80, after @ ..] = rest
            && let Some(unit) = out.get_mut(at)
        {
            unit.write(T::from(*a));
            (rest, at) = (after, at + 1);
        }
        while let [a @ 0x80..0xe0, b, after @ ..] = rest
            && let Some(unit) = out.get_mut(at)
        {
            unit.write(T::of(u32::from(a & 0x1f) << 6 | low(*b)));
            (rest, at) = (after, at + 1);
        }
        // Four of three bytes, so that one look at their first bytes is enough.
        while let Some((block, after)) = rest.split_first_chunk::<12>()
            && let (first, second, third, fourth) = (block[0], block[3], block[6], block[9])
            && first & second & third & fourth >= 0xe0
            && first | second | third | fourth < 0xf0
            && let Some(units) = out.get_mut(at..at + 4)
        {
            for (unit, [a, b, c]) in units.iter_mut().zip(block.as_chunks().0) {
                unit.write(T::of(u32::from(a & 0x0f) << 12 | low(*b) << 6 | low(*c)));
            }
            (rest, at) = (after, at + 4);
        }
        while let [a @ 0xe0..0xf0, b, c, after @ ..] = rest
            && let Some(unit) = out.get_mut(at)
        {
            unit.write(T::of(u32::from(a & 0x0f) << 12 | low(*b) << 6 | low(*c)));
            (rest, at) = (after, at + 1);
        }
        while let [a @ 0xf0..=0xff, b, c, d, after @ ..] = rest
            && let Some(unit) = out.get_mut(at)
        {
            let code = u32::from(a & 0x07) << 18 | low(*b) << 12 | low(*c) << 6 | low(*d);
            unit.write(T::of(code));
            (rest, at) = (after, at + 1);
        }
        if at == before {
            break;
        }
    }
    for unit in &mut out[at..] {
        unit.write(T::of(0xfffd));
    }
}

/// Why a sequence is ill-formed, in the words of Python's codecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No character starts with this byte.
    InvalidStart,
    /// The byte after the sequence cannot continue it.
    InvalidContinuation,
    /// The stream ended inside the sequence.
    UnexpectedEnd,
}

/// The first ill-formed sequence of a strict decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllFormed {
    /// Absolute, in bytes since the stream began.
    pub offset: u64,
    /// What is wrong.
    pub reason: Reason,
    bytes: [u8; 3],
    len: u8,
}

impl IllFormed {
    fn new(offset: u64, bytes: &[u8], at_end: bool) -> Self {
        let mut copy = [0; 3];
        let len = bytes.len().min(3);
        copy[..len].copy_from_slice(&bytes[..len]);
        let reason = match bytes.first() {
            Some(0xc2..=0xf4) if at_end => Reason::UnexpectedEnd,
            Some(0xc2..=0xf4) => Reason::InvalidContinuation,
            _ => Reason::InvalidStart,
        };
        #[allow(clippy::cast_possible_truncation)] // three at most
        IllFormed { offset, reason, bytes: copy, len: len as u8 }
    }

    /// The maximal subpart, one to three bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// What to do with ill-formed sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// One U+FFFD for each maximal subpart.
    Replace,
    /// Fail.
    Strict,
}

/// Decodes one stream, whatever the chunks.
///
/// # Examples
/// ```
/// use seamstream::utf8::{Errors, Utf8Decoder};
/// let mut decoder = Utf8Decoder::new(Errors::Replace, false);
/// assert_eq!(decoder.decode(b"\xf0\x9f", false).unwrap(), "");
/// assert_eq!(decoder.decode(b"\x9a\x80", true).unwrap(), "🚀");
/// ```
#[derive(Clone, Debug)]
pub struct Utf8Decoder {
    errors: Errors,
    skip_bom: bool,
    /// Whether the first character is out, or the end was, so that no byte order mark can follow.
    started: bool,
    pending: [u8; 3],
    pending_len: u8,
    /// Bytes before `pending`.
    consumed: u64,
    replaced: u64,
}

impl Utf8Decoder {
    /// A decoder at the start of a stream; `skip_bom` drops one byte order mark there.
    #[must_use]
    pub fn new(errors: Errors, skip_bom: bool) -> Self {
        Utf8Decoder {
            errors,
            skip_bom,
            started: false,
            pending: [0; 3],
            pending_len: 0,
            consumed: 0,
            replaced: 0,
        }
    }

    /// The text that `input` completes; `last` says that nothing follows.
    ///
    /// # Errors
    /// [`IllFormed`] under [`Errors::Strict`]; the decoder is then as before the call.
    pub fn decode<'a>(&mut self, input: &'a [u8], last: bool) -> Result<Cow<'a, str>, IllFormed> {
        let mut next = self.clone();
        let mut text = next.take(input, last)?;
        if next.skip_bom && !next.started && text.starts_with('\u{feff}') {
            text = match text {
                Cow::Borrowed(text) => Cow::Borrowed(&text['\u{feff}'.len_utf8()..]),
                Cow::Owned(text) => Cow::Owned(text['\u{feff}'.len_utf8()..].to_owned()),
            };
        }
        next.started |= next.consumed > 0 || last;
        *self = next;
        Ok(text)
    }

    fn take<'a>(&mut self, input: &'a [u8], last: bool) -> Result<Cow<'a, str>, IllFormed> {
        let mut rest = input;
        let mut head = String::new();
        // The held sequence grows by one byte at a time until it is decided.
        while self.pending_len > 0 {
            let Some((&byte, after)) = rest.split_first() else {
                break;
            };
            let mut sequence = [0; 4];
            let len = usize::from(self.pending_len);
            sequence[..len].copy_from_slice(&self.pending[..len]);
            sequence[len] = byte;
            match std::str::from_utf8(&sequence[..=len]) {
                Ok(character) => {
                    head.push_str(character);
                    self.consumed += len as u64 + 1;
                    self.pending_len = 0;
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => {
                    self.pending[len] = byte;
                    self.pending_len += 1;
                    rest = after;
                }
                Err(_) => {
                    self.replace(&sequence[..len], false)?;
                    head.push('\u{fffd}');
                    self.pending_len = 0;
                }
            }
        }
        if !last && self.pending_len > 0 {
            return Ok(Cow::Owned(head));
        }
        if self.pending_len > 0 {
            let (sequence, len) = (self.pending, usize::from(self.pending_len));
            self.replace(&sequence[..len], true)?;
            head.push('\u{fffd}');
            self.pending_len = 0;
        }
        let (text, cut) = match simdutf8::compat::from_utf8(rest) {
            Ok(text) => (Some(text), &[][..]),
            Err(error) if error.error_len().is_none() && !last => {
                let (whole, cut) = rest.split_at(error.valid_up_to());
                (simdutf8::basic::from_utf8(whole).ok(), cut)
            }
            Err(_) => (None, &[][..]),
        };
        if let Some(text) = text {
            self.consumed += text.len() as u64;
            self.hold(cut);
            if head.is_empty() {
                return Ok(Cow::Borrowed(text));
            }
            head.push_str(text);
            return Ok(Cow::Owned(head));
        }
        let mut chunks = rest.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            head.push_str(chunk.valid());
            self.consumed += chunk.valid().len() as u64;
            let bad = chunk.invalid();
            if bad.is_empty() {
                continue;
            }
            let unfinished = chunks.peek().is_none()
                && std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none());
            if unfinished && !last {
                self.hold(bad);
            } else {
                self.replace(bad, unfinished)?;
                head.push('\u{fffd}');
            }
        }
        Ok(Cow::Owned(head))
    }

    /// Holds the begin of a character, three bytes at most.
    fn hold(&mut self, sequence: &[u8]) {
        self.pending[..sequence.len()].copy_from_slice(sequence);
        #[allow(clippy::cast_possible_truncation)]
        {
            self.pending_len = sequence.len() as u8;
        }
    }

    fn replace(&mut self, sequence: &[u8], at_end: bool) -> Result<(), IllFormed> {
        if self.errors == Errors::Strict {
            return Err(IllFormed::new(self.consumed, sequence, at_end));
        }
        self.consumed += sequence.len() as u64;
        self.replaced += 1;
        Ok(())
    }

    /// The bytes that are held, and whether the stream's first character is out.
    #[must_use]
    pub fn state(&self) -> (&[u8], bool) {
        (&self.pending[..usize::from(self.pending_len)], self.started)
    }

    /// Goes on from what [`state`](Self::state) gave; offsets count from 0 again.
    ///
    /// False, and nothing changed, when `pending` is not the begin of a character.
    pub fn set_state(&mut self, pending: &[u8], started: bool) -> bool {
        let unfinished = pending.is_empty()
            || std::str::from_utf8(pending)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
        if unfinished {
            self.hold(pending);
            self.started = started;
            self.consumed = 0;
        }
        unfinished
    }

    /// A new stream.
    pub fn reset(&mut self) {
        *self = Self::new(self.errors, self.skip_bom);
    }

    /// How many U+FFFD were put into the text since the stream began.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code)]
    fn written<T: Unit + Into<u32>>(bytes: &[u8], len: usize) -> Vec<u32> {
        let mut out = vec![MaybeUninit::new(T::from(b'?')); len];
        write_units(bytes, &mut out);
        // SAFETY: initialized above. What was not written is "?" still, and so found.
        out.iter().map(|unit| unsafe { unit.assume_init() }.into()).collect()
    }

    fn check(text: &str) {
        let bytes = text.as_bytes();
        let codes: Vec<_> = text.chars().map(u32::from).collect();
        let width = match text.chars().max() {
            None | Some(..'\u{80}') => Width::Ascii,
            Some(..'\u{100}') => Width::Latin1,
            Some(..'\u{10000}') => Width::Two,
            _ => Width::Four,
        };
        let want = Shape { characters: codes.len(), width };
        assert_eq!((shape(bytes), shape_of_utf8(bytes)), (Some(want), want), "{text}");
        let len = codes.len();
        if width <= Width::Latin1 {
            assert_eq!(written::<u8>(bytes, len), codes, "{text}");
        }
        if width <= Width::Two {
            assert_eq!(written::<u16>(bytes, len), codes, "{text}");
        }
        assert_eq!(written::<u32>(bytes, len), codes, "{text}");
    }

    #[test]
    fn characters_are_those_of_the_standard_library() {
        check("");
        for code in (0..=0x0011_0000).filter_map(char::from_u32) {
            if code < '\u{3000}' || u32::from(code) % 61 < 2 || u32::from(code) & 0xff > 0xfd {
                check(&format!("{code}"));
            }
        }
        for widest in ["", "é", "ÿ", "Ā", "時", "\u{ffff}", "\u{10000}", "🚀", "\u{10ffff}"] {
            for len in [0, 1, 7, 31, 63, 200, 254, 255, 256, 600] {
                check(&format!("{}{widest}{}", "x".repeat(len), "ö".repeat(len % 9)));
                check(&format!("{}{widest}", "時計".repeat(len)));
            }
        }
    }

    #[test]
    fn shape_refuses_what_is_ill_formed() {
        for bytes in [&b"\xe3\x81"[..], b"a\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x80"] {
            assert_eq!(shape(bytes), None);
            assert_eq!(written::<u32>(bytes, 9)[8], 0xfffd); // it ends, and writes all
            written::<u32>(bytes, 0);
        }
    }
}
