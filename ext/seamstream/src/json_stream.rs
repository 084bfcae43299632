//! JSON texts out of a byte stream that is cut anywhere, glued together, or broken.
//!
//! Four framings ([`Framing`]) share the rules. Nothing is repaired: a value that
//! is handed out is, byte for byte, one JSON text of the stream, valid by RFC 8259
//! and as strict as orjson (well-formed UTF-8, no lone surrogates, no number
//! beyond a double). Bytes that were given up are one error, in order, before the
//! value that put the stream back in step. What comes out after a prefix of the
//! stream is the begin of what comes out at its end, so the cuts cannot matter.
//!
//! Use it where values arrive in pieces. Where a whole body is in memory and known
//! to be well-formed, a parser alone is simpler.
//!
//! What is open is a *unit*: a value, a line, an element, or a run of bytes that
//! were given up. A unit inside one chunk is handed out as a slice of the chunk;
//! one that a chunk cuts grows where it will stay. Every byte is scanned once; the
//! array framing may go back, at most nine times for one failing byte.

mod array;
mod concatenated;
mod grammar;
mod records;
mod run;

use crate::scan_json::Strings;
use crate::sse::{Error, Flow, Payload};
use crate::{OutOfMemory, PayloadBuf};
use core::num::NonZeroU64;
use grammar::{Grammar, is_white};
use run::Run;

const LF: u8 = b'\n';
const RECORD_SEPARATOR: u8 = 0x1e;
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The most levels that orjson takes.
pub const MAX_DEPTH: usize = 1024;

/// A chunk so small is read byte by byte inside a value.
const TINY: usize = 16;

/// Returns to the first line with a comma that are made for one failing byte.
const MAX_RETURNS: u8 = 8;

/// Whether `NaN` or `Infinity` is among the bytes, in a string or not.
///
/// Some parsers take them as numbers, which JSON does not.
#[must_use]
pub fn names_non_finite(bytes: &[u8]) -> bool {
    memchr::memchr2_iter(b'N', b'I', bytes)
        .any(|at| bytes[at..].starts_with(b"NaN") || bytes[at..].starts_with(b"Infinity"))
}

/// How a stream separates its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One after another, with or without white space between them.
    Concatenated,
    /// One a line; a line ends at LF.
    Ndjson,
    /// The elements of one top-level array.
    Array,
    /// RFC 7464: a record separator before each text, LF after it.
    JsonSeq,
}

/// How a parser frames, and what one unit may cost.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How the stream separates its texts.
    pub framing: Framing,
    /// The most bytes an open unit may have.
    pub max_event_bytes: usize,
    /// The most levels a value may have; never more than [`MAX_DEPTH`].
    pub max_depth: usize,
    /// Skip a unit that outgrows the limit instead of failing.
    pub skip_oversize: bool,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One whole JSON text.
    Value,
    /// What began like a value, or a whole line, but is not one JSON text.
    Syntax,
    /// Bytes where no value can be.
    Garbage,
    /// A needless comma of an array, or (without bytes) a missing one.
    Separator,
    /// A text of a sequence that the next record separator cut.
    Truncated,
    /// A unit that outgrew the limit, without its bytes.
    Oversize,
    /// The value inside which the stream ended.
    Torn,
}

impl Kind {
    /// The code of an error; `None` for a value, torn or not.
    #[must_use]
    pub const fn code(self) -> Option<&'static str> {
        match self {
            Kind::Value | Kind::Torn => None,
            Kind::Syntax => Some("syntax"),
            Kind::Garbage => Some("garbage"),
            Kind::Separator => Some("separator"),
            Kind::Truncated => Some("truncated"),
            Kind::Oversize => Some("oversize"),
        }
    }
}

/// One delimited unit of the stream.
#[derive(Debug)]
pub struct Frame<'a, B> {
    /// The bytes exactly as sent; of an error without the JSON white space at both ends.
    pub payload: Payload<'a, B>,
    /// What it is.
    pub kind: Kind,
    /// Absolute offset of its first byte.
    pub offset: u64,
}

/// Takes what the parser gives.
pub trait Sink<B> {
    /// Why a sink can fail.
    type Error;

    /// A frame is settled. After [`Flow::Stop`] the frames of the same byte still come.
    ///
    /// # Errors
    /// Its own; the stream cannot go on.
    fn frame(&mut self, frame: Frame<'_, B>) -> Result<Flow, Self::Error>;
}

/// Counts since the stream began; equal for every way of cutting it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes consumed.
    pub bytes: u64,
    /// Values handed out.
    pub frames: u64,
    /// Frames of [`Kind::Syntax`].
    pub syntax: u64,
    /// Frames of [`Kind::Garbage`].
    pub garbage: u64,
    /// Frames of [`Kind::Separator`].
    pub separator: u64,
    /// Frames of [`Kind::Truncated`].
    pub truncated: u64,
    /// Frames of [`Kind::Oversize`].
    pub oversize: u64,
    /// Whether the stream ended inside a value.
    pub torn: bool,
}

impl Stats {
    #[inline(always)]
    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Value => self.frames += 1,
            Kind::Syntax => self.syntax += 1,
            Kind::Garbage => self.garbage += 1,
            Kind::Separator => self.separator += 1,
            Kind::Truncated => self.truncated += 1,
            Kind::Oversize => self.oversize += 1,
            Kind::Torn => self.torn = true,
        }
    }
}

/// Where the parser stands between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// So many bytes of a byte order mark at the start of the stream.
    Bom(u8),
    /// Nothing is open: before a value, a line, the first record separator, the array.
    Idle,
    /// In a sequence: after a record separator.
    Element,
    /// In an array: before an element that needs no comma before it.
    BeforeElement,
    /// In an array: after a comma.
    AfterComma,
    /// In an array: after an element.
    AfterElement,
    /// After the array.
    AfterArray,

    // From here on a unit is open.
    /// In a value.
    Value,
    /// After a value that waits for a byte which decides.
    Whole,
    /// In a run of marks where no value is open.
    Marks,
    /// Out of step: before the brace of a candidate.
    Seek,
    /// Out of step: before the quote after such a brace.
    SeekQuote,
    /// Out of step: after that quote.
    SeekKey,
    /// Out of step: in a candidate.
    Candidate,
    /// Out of step: after a candidate that waits for a byte which decides.
    CandidateWhole,
    /// In a line, or an element of a sequence, that is not one JSON text.
    Bad,
    /// In bytes where no value can be.
    Garbage,
    /// In a malformed element of an array.
    Lost,
}

impl Mode {
    #[inline(always)]
    const fn is_open(self) -> bool {
        !matches!(
            self,
            Mode::Bom(_)
                | Mode::Idle
                | Mode::Element
                | Mode::BeforeElement
                | Mode::AfterComma
                | Mode::AfterElement
                | Mode::AfterArray
        )
    }
}

/// An absolute offset, held so that there may be none without a flag.
#[derive(Clone, Copy, Debug)]
struct Offset(NonZeroU64);

impl Offset {
    #[inline(always)]
    const fn new(offset: u64) -> Self {
        Offset(NonZeroU64::MIN.saturating_add(offset))
    }

    #[inline(always)]
    const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

/// What a byte may need to know of the chunks before.
#[derive(Debug, Default)]
struct Tail {
    last: u8,
    /// The last byte that is not white space.
    last_token: u8,
    /// The `{` that comes last, spaces not counted.
    brace: Option<Offset>,
    /// The same before `last`, if that is a quote.
    brace_before_quote: Option<Offset>,
}

/// The search for the separator after a malformed element.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // a state machine with a switch for each rule
struct Lost {
    /// Whether brackets and strings can still be counted.
    counting: bool,
    in_string: bool,
    escaped: bool,
    after_string: bool,
    at_line_begin: bool,
    /// The last byte that is not white space, since the failing one.
    previous: u8,
}

/// How a scan of the chunk ended.
enum Turn {
    /// All bytes were read.
    End,
    /// The sink has enough for now.
    Stop,
    /// The bytes from this offset on are to be read again.
    Return(u64, Flow),
}

/// A parser of one stream of JSON texts.
///
/// After an error only [`JsonParser::new`] helps.
#[derive(Debug)]
pub struct JsonParser<B> {
    framing: Framing,
    skip_oversize: bool,
    mode: Mode,
    grammar: Grammar,
    /// The bytes from `held_from` to the current chunk.
    held: B,
    held_from: u64,
    /// Where the open unit begins.
    start: u64,
    /// Where a value ends that waits for a byte which decides.
    end: u64,
    /// Where the object may begin, or begins, that puts the stream back in step.
    candidate: Option<Offset>,
    /// The first byte of the value.
    first: u8,
    /// What the open unit will be, unless it turns out to be a value.
    kind: Kind,
    tail: Tail,
    lost: Lost,
    /// Offset of the last comma between elements.
    comma: u64,
    /// The failing byte of the last return, and the returns made for it.
    returned_from: u64,
    returns: u8,
    /// Up to here the bytes were read before.
    replay_end: u64,
    array_closed: bool,
    stats: Stats,
}

impl<B: PayloadBuf> JsonParser<B> {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let max_depth = options.max_depth.min(MAX_DEPTH);
        JsonParser {
            framing: options.framing,
            skip_oversize: options.skip_oversize,
            mode: Mode::Bom(0),
            grammar: Grammar::new(max_depth, options.max_event_bytes),
            held: B::default(),
            held_from: 0,
            start: 0,
            end: 0,
            candidate: None,
            first: 0,
            kind: Kind::Syntax,
            tail: Tail::default(),
            lost: Lost::default(),
            comma: 0,
            returned_from: u64::MAX,
            returns: 0,
            replay_end: 0,
            array_closed: false,
            stats: Stats::default(),
        }
    }

    /// The options in force.
    #[must_use]
    pub const fn options(&self) -> Options {
        Options {
            framing: self.framing,
            max_event_bytes: self.grammar.max_levels(),
            max_depth: self.grammar.max_depth(),
            skip_oversize: self.skip_oversize,
        }
    }

    /// The most bytes that an open unit may have; it can have no more levels than bytes.
    #[inline(always)]
    const fn limit(&self) -> u64 {
        self.grammar.max_levels() as u64
    }

    /// What the stream held so far.
    #[inline]
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes that are held of what is open.
    #[inline]
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.held.as_slice().len()
    }

    /// Whether nothing is open.
    #[inline]
    #[must_use]
    pub fn is_at_boundary(&self) -> bool {
        !self.mode.is_open() && !matches!(self.mode, Mode::Bom(1..))
    }

    /// Whether the array's own closing bracket was read; `None` in other framings.
    #[inline]
    #[must_use]
    pub fn is_array_closed(&self) -> Option<bool> {
        (self.framing == Framing::Array).then_some(self.array_closed)
    }

    /// Consumes a chunk, or, if the sink stops, as much of it as settled what the sink got.
    ///
    /// Gives the number of bytes consumed; the rest is to be fed again.
    ///
    /// # Errors
    /// [`Error`]; `stats().bytes` is then the offset at which a limit was exceeded.
    #[inline]
    pub fn feed<S: Sink<B>>(
        &mut self,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<usize, Error<S::Error>> {
        let used = match self.mode {
            Mode::Value | Mode::Candidate if chunk.len() <= TINY => self.feed_inside(chunk)?,
            Mode::Bom(known) => self.skip_bom(chunk, known, sink)?,
            _ => 0,
        };
        if used == chunk.len() {
            return Ok(used);
        }
        Ok(used + self.run(&chunk[used..], sink)?)
    }

    /// Takes the bytes of a tiny chunk that neither end nor break the open value.
    #[inline(always)]
    fn feed_inside(&mut self, chunk: &[u8]) -> Result<usize, OutOfMemory> {
        let base = self.stats.bytes;
        let pending = base - self.start + chunk.len() as u64;
        if pending > self.limit() {
            return Ok(0);
        }
        let lf_fails = self.framing == Framing::Ndjson;
        let stays = |&&byte: &&u8| self.grammar.stays_inside(byte, lf_fails);
        let used = chunk.iter().take_while(stays).count();
        self.held.extend(&chunk[..used])?;
        self.note_tail(&chunk[..used], base);
        self.stats.bytes += used as u64;
        Ok(used)
    }

    /// Ends the stream: hands out what its end settles, the torn rest last.
    ///
    /// # Errors
    /// [`Error`]: bytes that might have begun a byte order mark can outgrow the limit.
    pub fn close<S: Sink<B>>(&mut self, sink: &mut S) -> Result<(), Error<S::Error>> {
        if let Mode::Bom(known) = self.mode {
            self.not_a_bom(known, sink)?;
        }
        let base = self.stats.bytes;
        let mut run = Run { strings: Strings::new(&[]), parser: self, bytes: &[], base, sink };
        let result = run.finish();
        self.mode = Mode::Idle;
        self.forget();
        result
    }

    /// Matches a byte order mark; gives the number of bytes used.
    #[cold]
    fn skip_bom<S: Sink<B>>(
        &mut self,
        chunk: &[u8],
        known: u8,
        sink: &mut S,
    ) -> Result<usize, Error<S::Error>> {
        let rest = &BOM[usize::from(known)..];
        let used = chunk.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if used < rest.len() && used < chunk.len() {
            self.not_a_bom(known, sink)?;
            return Ok(0);
        }
        self.stats.bytes += used as u64;
        self.held_from = self.stats.bytes;
        self.mode = if used == rest.len() {
            Mode::Idle
        } else {
            #[allow(clippy::cast_possible_truncation)] // less than three
            Mode::Bom(known + used as u8)
        };
        Ok(used)
    }

    /// The bytes that might have begun a byte order mark begin something else.
    fn not_a_bom<S: Sink<B>>(&mut self, known: u8, sink: &mut S) -> Result<(), Error<S::Error>> {
        self.mode = Mode::Idle;
        self.stats.bytes -= u64::from(known);
        self.held_from = self.stats.bytes;
        self.run(&BOM[..usize::from(known)], sink).map(drop)
    }

    #[inline]
    fn run<S: Sink<B>>(&mut self, chunk: &[u8], sink: &mut S) -> Result<usize, Error<S::Error>> {
        let base = self.stats.bytes;
        self.pass(chunk, base, &mut Flow::Continue, sink)
    }

    /// Reads the chunk at absolute offset `base`, until the sink stops.
    fn pass<S: Sink<B>>(
        &mut self,
        chunk: &[u8],
        base: u64,
        flow: &mut Flow,
        sink: &mut S,
    ) -> Result<usize, Error<S::Error>> {
        let mut pos = 0;
        while pos < chunk.len() {
            let now = base + pos as u64;
            // What is read again is read to its end before the sink may stop.
            let visible = if now < self.replay_end {
                &chunk[..index(base, self.replay_end).min(chunk.len())]
            } else if *flow == Flow::Stop {
                break;
            } else {
                chunk
            };
            let mut run =
                Run { strings: Strings::new(visible), parser: self, bytes: visible, base, sink };
            match run.scan(pos) {
                Ok((Turn::End, at)) => pos = at,
                Ok((Turn::Stop, at)) => {
                    pos = at;
                    *flow = Flow::Stop;
                }
                Ok((Turn::Return(to, after), _)) => {
                    *flow = and(*flow, after);
                    if to >= base {
                        pos = index(base, to);
                    } else {
                        self.replay(to, flow, sink)?;
                        pos = 0;
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.settle_chunk(&chunk[..pos], base)?;
        Ok(pos)
    }

    /// Reads again what is held from `to` on.
    #[cold]
    #[inline(never)]
    fn replay<S: Sink<B>>(
        &mut self,
        to: u64,
        flow: &mut Flow,
        sink: &mut S,
    ) -> Result<(), Error<S::Error>> {
        let begin = index(self.held_from, to);
        let held = std::mem::take(&mut self.held);
        self.held_from = to;
        // The bytes before `to` end a line.
        self.tail = Tail { last: LF, last_token: 0, ..Tail::default() };
        let again = held.as_slice().get(begin..).unwrap_or_default();
        self.pass(again, to, flow, sink).map(drop)
    }

    /// Keeps what is needed of a chunk that was read, and looks at the limit.
    #[inline(always)]
    fn settle_chunk<E>(&mut self, chunk: &[u8], base: u64) -> Result<(), Error<E>> {
        let now = base + chunk.len() as u64;
        self.stats.bytes = now;
        if !self.mode.is_open() {
            self.held_from = now;
            return Ok(());
        }
        self.note_tail(chunk, base);
        if now - self.start > self.limit() {
            return self.outgrown(chunk, base);
        }
        if self.start >= base {
            self.held_from = self.start;
        }
        let held_to = self.held_from + self.held.as_slice().len() as u64;
        self.held.extend(&chunk[index(base, held_to)..])?;
        Ok(())
    }

    /// The open unit outgrew the limit: fail, or keep no more than a candidate of it.
    #[cold]
    #[inline(never)]
    fn outgrown<E>(&mut self, chunk: &[u8], base: u64) -> Result<(), Error<E>> {
        let limit = self.limit();
        if !self.skip_oversize {
            let error = Error::Limit { offset: self.start + limit };
            return Err(self.failed(error));
        }
        let now = base + chunk.len() as u64;
        let candidate = self.candidate.map(Offset::get);
        let keep = candidate.filter(|candidate| now - candidate <= limit).unwrap_or(now);
        let held_to = self.held_from + self.held.as_slice().len() as u64;
        if keep == self.held_from && !self.held.as_slice().is_empty() {
            // The same candidate goes on: what is held of it is not copied again.
            self.held.extend(&chunk[index(base, held_to)..])?;
            return Ok(());
        }
        let mut held = B::default();
        if keep < held_to {
            held.extend(&self.held.as_slice()[index(self.held_from, keep)..])?;
        }
        held.extend(&chunk[index(base, held_to.max(keep).max(base))..])?;
        self.held = held;
        self.held_from = keep;
        Ok(())
    }

    /// Remembers what later bytes may need to know of this chunk.
    #[inline(always)]
    fn note_tail(&mut self, chunk: &[u8], base: u64) {
        let Some((&last, before)) = chunk.split_last() else {
            return;
        };
        self.tail.last = last;
        match self.framing {
            Framing::Concatenated => {
                self.tail.brace_before_quote =
                    if last == b'"' { last_brace(before, base, self.tail.brace) } else { None };
                self.tail.brace = last_brace(chunk, base, self.tail.brace);
            }
            Framing::Array => {
                if let Some(&token) = chunk.iter().rev().find(|&&byte| !is_white(byte)) {
                    self.tail.last_token = token;
                }
            }
            Framing::Ndjson | Framing::JsonSeq => {}
        }
    }

    /// Stands where the error is.
    #[cold]
    fn failed<E>(&mut self, error: Error<E>) -> Error<E> {
        if let Error::Limit { offset } = error {
            self.stats.bytes = offset;
        }
        self.mode = Mode::Idle;
        self.forget();
        error
    }

    /// Drops what is open; for a stream that cannot go on.
    pub fn abandon(&mut self) {
        self.mode = Mode::Idle;
        self.forget();
    }

    fn forget(&mut self) {
        self.held = B::default();
        self.held_from = self.stats.bytes;
        self.candidate = None;
    }
}

/// The position of `offset` in what begins at `base`.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // both lie in what is in memory
const fn index(base: u64, offset: u64) -> usize {
    (offset - base) as usize
}

/// The offset of the `{` that the bytes end with, spaces not counted.
#[inline(always)]
fn last_brace(bytes: &[u8], base: u64, before: Option<Offset>) -> Option<Offset> {
    match bytes.iter().rposition(|&byte| byte != b' ') {
        Some(at) if bytes[at] == b'{' => Some(Offset::new(base + at as u64)),
        Some(_) => None,
        None => before,
    }
}

/// What can begin a value.
const fn begins_value(byte: u8) -> bool {
    matches!(byte, b'{' | b'[') || begins_scalar(byte)
}

const fn begins_scalar(byte: u8) -> bool {
    matches!(byte, b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

/// A container or a string, whose end is certain.
const fn is_self_delimited(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"')
}

const fn is_container(byte: u8) -> bool {
    matches!(byte, b'{' | b'[')
}

/// What can only follow a value, or a key.
const fn is_mark(byte: u8) -> bool {
    matches!(byte, b',' | b':' | b']' | b'}')
}

const fn and(flow: Flow, other: Flow) -> Flow {
    if matches!(flow, Flow::Stop) { Flow::Stop } else { other }
}
