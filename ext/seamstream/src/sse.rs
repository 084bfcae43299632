//! Event streams: WHATWG HTML, "Interpreting an event stream".
//!
//! The parser works on bytes and decodes nothing: CR, LF, the colon and the field
//! names are ASCII, and no byte of a longer UTF-8 sequence is. Two paths share the
//! rules. A block that begins and ends inside one chunk is read in place and handed
//! out as slices of the chunk. A block that a chunk cuts becomes an [`Open`] one:
//! its payload grows where it will stay, everything else is kept in a compact
//! record from which the exact bytes of a torn tail can be told again.
//! [`SseParser::feed_plain`] is a short cut before them, for one event a call.
//!
//! Every byte is scanned once; twice is, of the block that a chunk cuts, the part in the
//! chunk in which it began, and after an event type a data line that does not end its block;
//! and once more, up to 1 KiB a call, what the short cut looks at and does not take.

use crate::scan::{Job, Kernel, NearEols, Scanner, with_kernel};
use crate::utf8::count_replaced;
use crate::{OutOfMemory, PayloadBuf};

const LF: u8 = b'\n';
const CR: u8 = b'\r';
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The largest reconnection time: 2^53 - 1 milliseconds, as far as a JavaScript number is exact.
pub const MAX_RETRY: u64 = (1 << 53) - 1;

/// What an idle parser may keep of its record between blocks.
const RECORD_KEPT: usize = 512;

/// How a parser deals with what the standard leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most bytes an open block may have, comments and line ends included.
    pub max_event_bytes: usize,
    /// Skip a block that outgrows the limit instead of failing.
    pub skip_oversize: bool,
    /// Hand out the bytes of each block as they came.
    pub keep_wire: bool,
    /// At the end, dispatch an unfinished block instead of reporting it as torn.
    pub flush_torn: bool,
    /// Whose behaviour to follow with blocks without data.
    pub profile: Profile,
}

/// What an empty line makes of a block without data: an event, or nothing.
///
/// `id` with NUL and `retry` that is not ASCII digits are ignored and so no fields here; nor are
/// lines with an unknown name, or comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataless {
    /// Nothing, as the standard has it.
    Dropped,
    /// An event if the block has an `event`, `id` or `retry`, with or without a value.
    AnyField,
    /// An event if the block has a `retry` or an event type that is not empty, or if the last
    /// event ID is not empty, whenever it was set: then every empty line makes one.
    AnyValue,
}

/// Whose behaviour to follow where decoders differ; all else is as in the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The standard.
    Whatwg,
    /// The package httpx-sse.
    HttpxSse,
    /// The package httpx2.
    Httpx2,
    /// The package openai.
    Openai,
    /// The package anthropic.
    Anthropic,
    /// The package sseclient-py.
    SseclientPy,
}

impl Profile {
    /// All there are, the standard first.
    pub const ALL: [Profile; 6] = [
        Profile::Whatwg,
        Profile::HttpxSse,
        Profile::Httpx2,
        Profile::Openai,
        Profile::Anthropic,
        Profile::SseclientPy,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Whatwg => "whatwg",
            Profile::HttpxSse => "httpx_sse",
            Profile::Httpx2 => "httpx2",
            Profile::Openai => "openai",
            Profile::Anthropic => "anthropic",
            Profile::SseclientPy => "sseclient_py",
        }
    }

    /// What becomes of a block without data.
    #[inline]
    #[must_use]
    pub const fn dataless(self) -> Dataless {
        match self {
            Profile::Whatwg | Profile::SseclientPy => Dataless::Dropped,
            Profile::Httpx2 => Dataless::AnyField,
            Profile::HttpxSse | Profile::Openai | Profile::Anthropic => Dataless::AnyValue,
        }
    }

    /// Whether an event is a "message" when its block names no type; else it has no type.
    #[inline]
    #[must_use]
    pub const fn names_message(self) -> bool {
        !matches!(self, Profile::Openai | Profile::Anthropic)
    }

    /// What to do with a torn tail when nothing is said; see [`Options::flush_torn`].
    #[must_use]
    pub const fn flushes_torn(self) -> bool {
        matches!(self, Profile::SseclientPy)
    }
}

/// Counts since the stream began; equal for every way of cutting it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes consumed.
    pub bytes: u64,
    /// Events dispatched.
    pub events: u64,
    /// Comments that ended.
    pub comments: u64,
    /// Lines that ended and have an unknown field name.
    pub ignored_lines: u64,
    /// `retry` that is not ASCII digits, `id` with NUL.
    pub invalid_fields: u64,
    /// Blocks with fields but without data, dispatched or not.
    pub empty_blocks: u64,
    /// U+FFFD put into what was handed out.
    pub replaced: u64,
    /// Blocks skipped for their size.
    pub skipped: u64,
    /// Whether the stream ended inside a block.
    pub torn: bool,
}

/// [`Stats`] without what is no number.
#[derive(Clone, Copy, Default)]
struct Counts {
    bytes: u64,
    events: u64,
    comments: u64,
    ignored_lines: u64,
    invalid_fields: u64,
    empty_blocks: u64,
    replaced: u64,
    skipped: u64,
}

/// Where a payload lies.
#[derive(Debug)]
pub enum Payload<'a, B> {
    /// In the chunk that was fed.
    Slice(&'a [u8]),
    /// In a buffer of its own, which may be taken.
    Owned(&'a mut B),
}

impl<B: PayloadBuf> Payload<'_, B> {
    /// The bytes, wherever they are.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Payload::Slice(bytes) => bytes,
            Payload::Owned(buffer) => buffer.as_slice(),
        }
    }
}

/// One dispatched block, or the torn one at the end.
#[derive(Debug)]
pub struct Block<'a, B> {
    /// The data lines joined by LF; the whole tail of a torn block.
    pub payload: Payload<'a, B>,
    /// The event type as sent; empty when none was.
    pub event: &'a [u8],
    /// The last accepted `retry` of this block, in milliseconds.
    pub retry: Option<u64>,
    /// U+FFFD that decoding puts into the payload, the event type and an id set here.
    pub replaced: u64,
    /// Absolute offset of the first line that is neither empty nor a comment; of the empty line
    /// when there is none.
    pub offset: u64,
    /// The block as it came, with [`Options::keep_wire`].
    pub wire: Option<Payload<'a, B>>,
    /// Whether this is the unfinished tail of the stream.
    pub torn: bool,
}

/// What a sink wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next event.
    Continue,
    /// Nothing more from this chunk for now.
    Stop,
}

/// Takes what the parser gives.
pub trait Sink<B> {
    /// Why a sink can fail.
    type Error;

    /// An empty line commits the last event ID, right before its event if there is one.
    ///
    /// # Errors
    /// Its own; the stream cannot go on.
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Self::Error>;

    /// Whether the last event ID is not empty; asked with [`Dataless::AnyValue`] only.
    fn has_id(&self) -> bool;

    /// A block is complete.
    ///
    /// # Errors
    /// Its own; the stream cannot go on.
    fn event(&mut self, block: Block<'_, B>) -> Result<Flow, Self::Error>;
}

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// A block outgrew [`Options::max_event_bytes`] at this absolute offset.
    Limit {
        /// Of the first byte past the limit.
        offset: u64,
    },
    /// Memory for an open block could not be had.
    OutOfMemory,
    /// The sink failed.
    Sink(E),
}

impl<E> From<OutOfMemory> for Error<E> {
    fn from(_: OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}

/// Whether a payload is the sentinel `[DONE]`, JSON white space around it ignored.
#[inline(always)]
#[must_use]
pub fn is_done(payload: &[u8]) -> bool {
    #[cold]
    fn is_trimmed_done(payload: &[u8]) -> bool {
        trim_json_whitespace(payload) == b"[DONE]"
    }
    // One look is enough for nearly every payload.
    match payload.first() {
        Some(b'[' | b' ' | b'\t' | &LF | &CR) => is_trimmed_done(payload),
        _ => false,
    }
}

/// `bytes` without the JSON white space (RFC 8259) at both ends.
#[inline]
#[must_use]
pub fn trim_json_whitespace(bytes: &[u8]) -> &[u8] {
    const fn is_space(byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | LF | CR)
    }
    let mut bytes = bytes;
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

const fn is_eol(byte: u8) -> bool {
    byte == LF || byte == CR
}

/// Where the empty line begins, and where what follows it, if one comes right after the line end
/// at the start of these bytes, by the same line end; CR alone is rare enough.
#[inline(always)]
const fn empty_line(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes {
        [LF, LF, ..] => Some((1, 2)),
        [CR, LF, CR, LF, ..] => Some((2, 4)),
        _ => None,
    }
}

/// What one line says. Fields that are ignored are counted where they end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Comment,
    Data(&'a [u8]),
    Event(&'a [u8]),
    Id(&'a [u8]),
    Retry(u64),
    Invalid,
    Unknown,
}

/// Reads one line, not empty and without its end.
#[inline(always)]
fn read_line(line: &[u8]) -> Line<'_> {
    /// The value when the field's name is `name`, and nothing else.
    #[inline(always)]
    fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
        match line.strip_prefix(name)? {
            [] => Some(&[]),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        }
    }
    let known = match line.first() {
        Some(b'd') => value(line, b"data").map(Line::Data),
        Some(b':') => Some(Line::Comment),
        Some(b'e') => value(line, b"event").map(Line::Event),
        Some(b'i') => value(line, b"id")
            .map(|id| if memchr::memchr(0, id).is_some() { Line::Invalid } else { Line::Id(id) }),
        Some(b'r') => value(line, b"retry").map(|digits| {
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Line::Invalid;
            }
            let time = digits.iter().fold(0_u64, |time, digit| {
                (time.saturating_mul(10).saturating_add(u64::from(digit - b'0'))).min(MAX_RETRY)
            });
            Line::Retry(time)
        }),
        _ => None,
    };
    known.unwrap_or(Line::Unknown)
}

/// A range of the chunk, small enough to stay in registers.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// Where the parser stands between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// So many bytes of a byte order mark at the start of the stream.
    Bom(u8),
    /// Right after a byte order mark.
    AfterBom,
    /// At the start of a line, outside any block.
    Idle,
    /// In a comment outside any block, of which nothing is kept.
    Comment,
    /// In the block that `open` holds.
    Open,
    /// In a block that is skipped, at the start of a line.
    SkipStart,
    /// In a line of a block that is skipped.
    SkipLine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenLine {
    Start,
    /// An unfinished line, held from `line_start` on.
    Partial,
    /// An unfinished `data` line whose value goes straight into the payload.
    Data,
}

/// How a line ends, as bits: CRLF is both.
const ENDS_LF: u8 = 0b01;
const ENDS_CR: u8 = 0b10;

/// A block that began in an earlier chunk.
///
/// Held once: data values in `payload`, the rest in `record`. The record is a
/// sequence of entries: a line that is not data as it came, its end included; for
/// a data line CR and a code byte. No such line begins with CR, so entries can be
/// told apart, and no data value has an LF, so the payload can be cut again.
/// With `keep_wire` the payload is all of the block as it came, and the record empty.
#[allow(clippy::struct_excessive_bools)] // facts, not states
struct Open<B> {
    payload: B,
    record: Vec<u8>,
    event: Vec<u8>,
    has_event: bool,
    id: Vec<u8>,
    has_id: bool,
    retry: Option<u64>,
    line: OpenLine,
    /// Where the unfinished line begins in `held()`.
    line_start: usize,
    /// Bytes that count against the limit.
    pending: usize,
    /// Where the first field line begins, in `pending`; None before it came.
    first_field: Option<usize>,
    data_lines: usize,
    last_is_data: bool,
    maybe_ill_formed: bool,
}

impl<B: PayloadBuf> Open<B> {
    fn new() -> Self {
        Open {
            payload: B::default(),
            record: Vec::new(),
            event: Vec::new(),
            has_event: false,
            id: Vec::new(),
            has_id: false,
            retry: None,
            line: OpenLine::Start,
            line_start: 0,
            pending: 0,
            first_field: None,
            data_lines: 0,
            last_is_data: false,
            maybe_ill_formed: false,
        }
    }

    /// Makes the block ready for the next one, without holding on to much memory.
    fn clear(&mut self) {
        fn emptied(mut buffer: Vec<u8>, keep: usize) -> Vec<u8> {
            if buffer.capacity() > keep {
                return Vec::new();
            }
            buffer.clear();
            buffer
        }
        *self = Open {
            record: emptied(std::mem::take(&mut self.record), RECORD_KEPT),
            event: emptied(std::mem::take(&mut self.event), 64),
            id: emptied(std::mem::take(&mut self.id), 64),
            ..Self::new()
        };
    }

    fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), OutOfMemory> {
        PayloadBuf::extend(buffer, bytes)
    }

    /// Appends to the buffer that holds lines as they came.
    fn hold<const WIRE: bool>(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        if WIRE { self.payload.extend(bytes) } else { Self::append(&mut self.record, bytes) }
    }

    fn held<const WIRE: bool>(&self) -> &[u8] {
        if WIRE { self.payload.as_slice() } else { &self.record }
    }

    /// Begins a data line: a code for the shape of its name, and the LF that joins.
    fn begin_data(&mut self, line: &[u8]) -> Result<(), OutOfMemory> {
        let shape = match line {
            [b'd', b'a', b't', b'a', b':', b' ', ..] => 2,
            [b'd', b'a', b't', b'a', b':', ..] => 1,
            _ => 0,
        };
        Self::append(&mut self.record, &[CR, shape << 2])?;
        if self.data_lines > 0 {
            self.payload.extend(&[LF])?;
        }
        self.data_lines += 1;
        self.last_is_data = true;
        Ok(())
    }

    /// Keeps `line`, which ended, and what it says.
    fn keep_line<const WIRE: bool>(
        &mut self,
        line: &[u8],
        said: Line<'_>,
    ) -> Result<(), OutOfMemory> {
        if said != Line::Comment && self.first_field.is_none() {
            self.first_field = Some(self.pending);
        }
        match said {
            Line::Data(_) if WIRE => self.data_lines += 1,
            Line::Data(value) => {
                self.begin_data(line)?;
                return self.payload.extend(value);
            }
            _ => self.note(said)?,
        }
        self.last_is_data = false;
        self.hold::<WIRE>(line)
    }

    /// Remembers a field that is not data.
    fn note(&mut self, said: Line<'_>) -> Result<(), OutOfMemory> {
        match said {
            Line::Event(name) => {
                self.event.clear();
                self.has_event = true;
                Self::append(&mut self.event, name)
            }
            Line::Id(id) => {
                self.id.clear();
                self.has_id = true;
                Self::append(&mut self.id, id)
            }
            Line::Retry(time) => {
                self.retry = Some(time);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps the end of the last line, or the LF that follows its CR.
    fn keep_eol<const WIRE: bool>(&mut self, eol: u8) -> Result<(), OutOfMemory> {
        self.line = OpenLine::Start;
        if self.last_is_data && !WIRE {
            if let Some(code) = self.record.last_mut() {
                *code |= if eol == LF { ENDS_LF } else { ENDS_CR };
            }
            return Ok(());
        }
        self.hold::<WIRE>(&[eol])
    }

    /// Begins a line that its chunk does not end.
    fn begin_line<const WIRE: bool>(&mut self, line: &[u8]) -> Result<(), OutOfMemory> {
        if line.first() != Some(&b':') && self.first_field.is_none() {
            self.first_field = Some(self.pending);
        }
        self.line_start = self.held::<WIRE>().len();
        self.line = OpenLine::Partial;
        self.last_is_data = false;
        self.extend_line::<WIRE>(line)
    }

    /// Goes on with an unfinished line. Once it is surely data, its value goes to the payload.
    fn extend_line<const WIRE: bool>(&mut self, part: &[u8]) -> Result<(), OutOfMemory> {
        if self.line == OpenLine::Data {
            return self.payload.extend(part);
        }
        if WIRE {
            return self.payload.extend(part);
        }
        // Six bytes decide: a space after the colon belongs to the name.
        let known = self.record.len() - self.line_start;
        let mut head = [0; 6];
        if known < 6 && known + part.len() >= 6 {
            head[..known].copy_from_slice(&self.record[self.line_start..]);
            head[known..].copy_from_slice(&part[..6 - known]);
            if head.starts_with(b"data:") {
                self.record.truncate(self.line_start);
                self.begin_data(&head)?;
                self.line = OpenLine::Data;
                if head[5] != b' ' {
                    self.payload.extend(&head[5..])?;
                }
                return self.payload.extend(&part[6 - known..]);
            }
        }
        Self::append(&mut self.record, part)
    }

    /// Ends the unfinished line: what it says, for those who count.
    fn end_line<const WIRE: bool>(&mut self) -> Result<Line<'static>, OutOfMemory> {
        if self.line == OpenLine::Data {
            return Ok(Line::Data(&[]));
        }
        // The buffer is taken out for as long as the line in it is read.
        if WIRE {
            let payload = std::mem::take(&mut self.payload);
            let said = self.end_partial::<WIRE>(&payload.as_slice()[self.line_start..]);
            self.payload = payload;
            return said;
        }
        let record = std::mem::take(&mut self.record);
        let said = self.end_partial::<WIRE>(&record[self.line_start..]);
        let short_data = matches!(said, Ok(Line::Data(_)));
        let shape = record.last() == Some(&b':');
        self.record = record;
        if short_data {
            // `data` or `data:` alone: too short to have been known before.
            self.record.truncate(self.line_start);
            self.begin_data(if shape { b"data:" } else { b"data" })?;
        }
        said
    }

    fn end_partial<const WIRE: bool>(&mut self, line: &[u8]) -> Result<Line<'static>, OutOfMemory> {
        let said = read_line(line);
        self.note(said)?;
        Ok(match said {
            Line::Comment => Line::Comment,
            Line::Data(_) => {
                if WIRE {
                    self.data_lines += 1;
                }
                Line::Data(&[])
            }
            Line::Event(_) => Line::Event(&[]),
            Line::Id(_) => Line::Id(&[]),
            Line::Retry(time) => Line::Retry(time),
            Line::Invalid => Line::Invalid,
            Line::Unknown => Line::Unknown,
        })
    }

    /// All bytes from the first field line on, exactly.
    fn tail<const WIRE: bool>(&self) -> Result<B, OutOfMemory> {
        let mut tail = B::default();
        if WIRE {
            tail.extend(&self.payload.as_slice()[self.first_field.unwrap_or(0)..])?;
            return Ok(tail);
        }
        tail.reserve(self.pending)?;
        let mut values = self.payload.as_slice().split(|&byte| byte == LF);
        let mut entries = &self.record[..];
        while let Some(&first) = entries.first() {
            if first != CR {
                let end = memchr::memchr2(LF, CR, entries).map_or(entries.len(), |eol| {
                    // CRLF is one end; CR and a data entry are two things.
                    let crlf = entries[eol..].starts_with(b"\r\n");
                    eol + 1 + usize::from(crlf)
                });
                tail.extend(&entries[..end])?;
                entries = &entries[end..];
                continue;
            }
            let code = entries[1];
            tail.extend(match code >> 2 {
                2 => b"data: ",
                1 => b"data:",
                _ => b"data",
            })?;
            tail.extend(values.next().unwrap_or_default())?;
            tail.extend(match code & (ENDS_LF | ENDS_CR) {
                0 => b"",
                ENDS_LF => b"\n",
                ENDS_CR => b"\r",
                _ => b"\r\n",
            })?;
            entries = &entries[2..];
        }
        Ok(tail)
    }
}

/// The data values of whole lines, joined by LF.
fn join_data<B: PayloadBuf>(lines: &[u8]) -> Result<B, OutOfMemory> {
    let mut payload = B::default();
    payload.reserve(lines.len())?;
    let (mut rest, mut joined) = (lines, false);
    while !rest.is_empty() {
        let end = memchr::memchr2(LF, CR, rest).unwrap_or(rest.len());
        if end > 0
            && let Line::Data(value) = read_line(&rest[..end])
        {
            if joined {
                payload.extend(&[LF])?;
            }
            joined = true;
            payload.extend(value)?;
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Ok(payload)
}

/// Parses one event stream, whatever the chunks.
///
/// `B` is the buffer in which payloads that span chunks grow.
#[allow(clippy::struct_excessive_bools)] // options, not states
pub struct SseParser<B> {
    /// Flat, and not `Options` and `Stats`: their padding is a tenth of an idle parser.
    max_event_bytes: usize,
    counts: Counts,
    /// `u64::MAX` before the first one.
    reconnection_time_ms: u64,
    open: Option<Box<Open<B>>>,
    mode: Mode,
    /// The last byte was a CR that ended a line; an LF right after it belongs to it.
    after_cr: bool,
    torn: bool,
    skip_oversize: bool,
    keep_wire: bool,
    flush_torn: bool,
    profile: Profile,
}

impl<B: PayloadBuf> SseParser<B> {
    /// A parser at the start of a stream.
    #[must_use]
    pub fn new(options: Options) -> Self {
        SseParser {
            // Positions are added to it, and no chunk is longer than isize::MAX.
            max_event_bytes: options.max_event_bytes.min(isize::MAX.unsigned_abs()),
            counts: Counts::default(),
            reconnection_time_ms: u64::MAX,
            open: None,
            mode: Mode::Bom(0),
            after_cr: false,
            torn: false,
            skip_oversize: options.skip_oversize,
            keep_wire: options.keep_wire,
            flush_torn: options.flush_torn,
            profile: options.profile,
        }
    }

    /// A parser for a new connection: all starts again but the reconnection time.
    #[must_use]
    pub fn renewed(&self) -> Self {
        SseParser { reconnection_time_ms: self.reconnection_time_ms, ..Self::new(self.options()) }
    }

    /// Drops what is open; for a stream that cannot go on.
    pub fn abandon(&mut self) {
        self.open = None;
        self.mode = Mode::Idle;
        self.after_cr = false;
    }

    /// Counts since the stream began.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Counts { bytes, events, comments, ignored_lines, .. } = self.counts;
        let Counts { invalid_fields, empty_blocks, replaced, skipped, .. } = self.counts;
        Stats {
            bytes,
            events,
            comments,
            ignored_lines,
            invalid_fields,
            empty_blocks,
            replaced,
            skipped,
            torn: self.torn,
        }
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> Options {
        let &SseParser { max_event_bytes, skip_oversize, keep_wire, flush_torn, profile, .. } =
            self;
        Options { max_event_bytes, skip_oversize, keep_wire, flush_torn, profile }
    }

    /// The last accepted `retry` of the stream.
    #[must_use]
    pub fn reconnection_time_ms(&self) -> Option<u64> {
        (self.reconnection_time_ms != u64::MAX).then_some(self.reconnection_time_ms)
    }

    /// Bytes of the open block, as they count against the limit.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        match &self.open {
            Some(open) if self.mode == Mode::Open => open.pending,
            _ => 0,
        }
    }

    /// Whether a comment may be written here without touching an event.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        match self.mode {
            Mode::Bom(0) | Mode::Idle => true,
            Mode::Open => self
                .open
                .as_ref()
                .is_some_and(|open| open.line == OpenLine::Start && open.first_field.is_none()),
            _ => false,
        }
    }

    /// Appends a chunk to the open data line, if that is all there is to do with it.
    ///
    /// For tiny chunks, whose cost is the call. False: nothing was done.
    #[inline]
    pub fn feed_inside_data(&mut self, chunk: &[u8]) -> bool {
        let Some(open) = &mut self.open else {
            return false;
        };
        if self.mode != Mode::Open
            || open.line != OpenLine::Data
            || open.pending + chunk.len() > self.max_event_bytes
        {
            return false;
        }
        let mut all = 0;
        for &byte in chunk {
            if is_eol(byte) {
                return false;
            }
            all |= byte;
        }
        if open.payload.extend(chunk).is_err() {
            return false;
        }
        open.maybe_ill_formed |= !all.is_ascii();
        open.pending += chunk.len();
        self.counts.bytes += chunk.len() as u64;
        true
    }

    /// Parses the first event of a chunk and says how much of it that took, if the event begins
    /// and ends there and is of the shape of nearly every one. None: nothing was done.
    ///
    /// For one event a call, in as little code as can be: that shares the processor's 32 KiB for
    /// instructions with all that a program does from one event to the next, and each line of 64
    /// bytes more costs it half a nanosecond.
    #[inline(always)]
    pub fn feed_plain<'a>(&mut self, chunk: &'a [u8]) -> Option<(Block<'a, B>, usize)> {
        if self.mode != Mode::Idle || self.after_cr || self.keep_wire {
            return None;
        }
        let PlainBlock { event, payload, empty, after, maybe_ill_formed } =
            with_kernel(FindPlain { chunk })?;
        if empty > self.max_event_bytes {
            return None;
        }
        let replaced = if maybe_ill_formed { count_replaced_in(payload, event) } else { 0 };
        let offset = self.counts.bytes;
        self.counts.bytes += after as u64;
        self.counts.events += 1;
        self.counts.replaced += replaced;
        let payload = Payload::Slice(payload);
        let (retry, wire, torn) = (None, None, false);
        Some((Block { payload, event, retry, replaced, offset, wire, torn }, after))
    }

    /// Parses a chunk and returns how much of it was used: all, unless the sink stopped.
    ///
    /// The rest is to be fed again. Each event reaches the sink with the chunk that completes it.
    ///
    /// # Errors
    /// [`Error`]: the stream cannot go on, and [`Stats::bytes`] is the offset at which it failed.
    #[inline]
    pub fn feed<S: Sink<B>>(
        &mut self,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<usize, Error<S::Error>> {
        if chunk.is_empty() {
            return Ok(0);
        }
        let begin = if matches!(self.mode, Mode::Bom(_) | Mode::AfterBom) {
            self.start(chunk, sink)?
        } else {
            0
        };
        if begin == chunk.len() {
            return Ok(begin);
        }
        Ok(begin + self.run(&chunk[begin..], sink)?)
    }

    /// The byte order mark: WHATWG Encoding, "UTF-8 decode".
    #[cold]
    fn start<S: Sink<B>>(&mut self, chunk: &[u8], sink: &mut S) -> Result<usize, Error<S::Error>> {
        let Mode::Bom(known) = self.mode else {
            self.mode = Mode::Idle;
            return Ok(0);
        };
        let mut matched = usize::from(known);
        let mut used = 0;
        while matched < BOM.len() && used < chunk.len() && chunk[used] == BOM[matched] {
            matched += 1;
            used += 1;
        }
        if matched == BOM.len() {
            self.mode = Mode::AfterBom;
        } else if used == chunk.len() {
            #[allow(clippy::cast_possible_truncation)] // less than three
            {
                self.mode = Mode::Bom(matched as u8);
            }
        } else {
            self.not_a_bom(known, sink)?;
            return Ok(0);
        }
        self.counts.bytes += used as u64;
        if used < chunk.len() {
            self.mode = Mode::Idle;
        }
        Ok(used)
    }

    /// The bytes that might have begun a byte order mark begin the first line.
    #[cold]
    fn not_a_bom<S: Sink<B>>(&mut self, known: u8, sink: &mut S) -> Result<(), Error<S::Error>> {
        self.mode = Mode::Idle;
        self.counts.bytes -= u64::from(known);
        self.run(&BOM[..usize::from(known)], sink).map(drop)
    }

    #[inline]
    fn run<S: Sink<B>>(&mut self, chunk: &[u8], sink: &mut S) -> Result<usize, Error<S::Error>> {
        if chunk.is_empty() {
            return Ok(0);
        }
        if self.keep_wire || self.profile.dataless() != Dataless::Dropped {
            return self.run_with_more(chunk, sink);
        }
        with_kernel(Parse::<'_, B, S, false, false> { parser: self, chunk, sink })
    }

    /// The same with what few ask for; apart, so that it is in nobody else's way.
    #[inline(never)]
    fn run_with_more<S: Sink<B>>(
        &mut self,
        chunk: &[u8],
        sink: &mut S,
    ) -> Result<usize, Error<S::Error>> {
        if self.keep_wire {
            with_kernel(Parse::<'_, B, S, true, true> { parser: self, chunk, sink })
        } else {
            with_kernel(Parse::<'_, B, S, false, true> { parser: self, chunk, sink })
        }
    }

    /// Ends the stream: the unfinished block is flushed or reported as torn.
    ///
    /// # Errors
    /// [`Error`]: bytes that might have begun a byte order mark can outgrow the limit, and memory
    /// can run out.
    pub fn close<S: Sink<B>>(&mut self, sink: &mut S) -> Result<(), Error<S::Error>> {
        if let Mode::Bom(known) = self.mode {
            self.not_a_bom(known, sink)?;
        }
        let mode = std::mem::replace(&mut self.mode, Mode::Idle);
        self.after_cr = false;
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if mode != Mode::Open {
            return Ok(());
        }
        let Some(first_field) = open.first_field else {
            return Ok(());
        };
        let block_start = self.counts.bytes - open.pending as u64;
        if self.flush_torn {
            if open.line != OpenLine::Start {
                let said = if self.keep_wire {
                    open.end_line::<true>()?
                } else {
                    open.end_line::<false>()?
                };
                self.count(said);
            }
            open.line = OpenLine::Start;
            let at = self.counts.bytes;
            return self.dispatch_open(&mut open, at, b"", sink).map(drop);
        }
        self.torn = true;
        let mut tail = if self.keep_wire { open.tail::<true>()? } else { open.tail::<false>()? };
        let replaced = count_replaced(tail.as_slice());
        self.counts.replaced += replaced;
        let wire = self.keep_wire.then_some(Payload::Owned(&mut open.payload));
        let block = Block {
            payload: Payload::Owned(&mut tail),
            event: b"",
            retry: None,
            replaced,
            offset: block_start + first_field as u64,
            wire,
            torn: true,
        };
        sink.event(block).map(drop).map_err(Error::Sink)
    }

    /// Counts a line that ended; `retry` takes effect at once.
    #[inline(always)]
    fn count(&mut self, said: Line<'_>) {
        match said {
            Line::Data(_) | Line::Event(_) | Line::Id(_) => {}
            Line::Comment => self.counts.comments += 1,
            Line::Retry(time) => self.reconnection_time_ms = time,
            Line::Invalid => self.counts.invalid_fields += 1,
            Line::Unknown => self.counts.ignored_lines += 1,
        }
    }

    /// The empty line `eol`, at absolute offset `at`, of an open block.
    fn dispatch_open<S: Sink<B>>(
        &mut self,
        open: &mut Open<B>,
        at: u64,
        eol: &[u8],
        sink: &mut S,
    ) -> Result<Flow, Error<S::Error>> {
        if open.has_id {
            sink.commit_id(&open.id).map_err(Error::Sink)?;
        }
        let (Some(first_field), 1..) = (open.first_field, open.data_lines) else {
            return self.dispatch_dataless(open, at, eol, sink);
        };
        let offset = at - (open.pending - first_field) as u64;
        let mut joined;
        let (payload, wire) = if self.keep_wire {
            joined = join_data(open.payload.as_slice())?;
            open.payload.extend(eol)?;
            (&mut joined, Some(Payload::Owned(&mut open.payload)))
        } else {
            (&mut open.payload, None)
        };
        let mut replaced = 0;
        if open.maybe_ill_formed {
            replaced = count_replaced(payload.as_slice()) + count_replaced(&open.event);
            if open.has_id {
                replaced += count_replaced(&open.id);
            }
        }
        self.counts.events += 1;
        self.counts.replaced += replaced;
        let block = Block {
            payload: Payload::Owned(payload),
            event: &open.event,
            retry: open.retry,
            replaced,
            offset,
            wire,
            torn: false,
        };
        sink.event(block).map_err(Error::Sink)
    }

    /// The same for a block without data, whose last event ID is committed.
    #[cold]
    fn dispatch_dataless<S: Sink<B>>(
        &mut self,
        open: &mut Open<B>,
        at: u64,
        eol: &[u8],
        sink: &mut S,
    ) -> Result<Flow, Error<S::Error>> {
        self.counts.empty_blocks += u64::from(open.first_field.is_some());
        let is_event = match self.profile.dataless() {
            Dataless::Dropped => false,
            Dataless::AnyField => open.has_event || open.has_id || open.retry.is_some(),
            Dataless::AnyValue => !open.event.is_empty() || open.retry.is_some() || sink.has_id(),
        };
        if !is_event {
            return Ok(Flow::Continue);
        }
        let mut wire = None;
        if self.keep_wire {
            open.payload.extend(eol)?;
            wire = Some(Payload::Owned(&mut open.payload));
        }
        // The id is empty unless it was set here.
        let replaced = count_replaced(&open.event) + count_replaced(&open.id);
        self.counts.events += 1;
        self.counts.replaced += replaced;
        let block = Block {
            payload: Payload::Slice(&[]),
            event: &open.event,
            retry: open.retry,
            replaced,
            offset: at - open.first_field.map_or(0, |first| (open.pending - first) as u64),
            wire,
            torn: false,
        };
        sink.event(block).map_err(Error::Sink)
    }
}

/// What is known of a block that begins and, it may be, ends in this chunk.
struct Fields {
    event: Span,
    id: Option<Span>,
    retry: Option<u64>,
    data: Span,
    data_lines: usize,
    /// Where the first line that is no comment begins.
    first_field: Option<usize>,
}

/// A block of the shape of nearly every event: one data line with a value, before it perhaps one
/// with an event type, then an empty line.
struct PlainBlock<'a> {
    event: &'a [u8],
    payload: &'a [u8],
    /// Where the empty line begins, and where the next block.
    empty: usize,
    after: usize,
    maybe_ill_formed: bool,
}

/// Apart, as most payloads are ASCII.
#[inline(never)]
fn count_replaced_in(payload: &[u8], event: &[u8]) -> u64 {
    count_replaced(payload) + if event.is_empty() { 0 } else { count_replaced(event) }
}

/// Looks for a [`PlainBlock`] at the start of a chunk.
///
/// None says nothing: it is for [`Parse`] to find out what there is.
struct FindPlain<'a> {
    chunk: &'a [u8],
}

impl<'a> Job for FindPlain<'a> {
    type Output = Option<PlainBlock<'a>>;

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> Self::Output {
        let chunk = self.chunk;
        let mut eols = NearEols::new(kernel, chunk);
        let (mut line, mut event): (usize, &[u8]) = (0, b"");
        loop {
            let eol = eols.next_eol()?;
            if eol < line {
                continue; // the LF of a CRLF
            }
            let (text, ended) = (chunk.get(line..eol)?, chunk.get(eol..)?);
            let Some(payload) = text.strip_prefix(b"data: ") else {
                if line != 0 {
                    return None;
                }
                event = text.strip_prefix(b"event: ")?;
                line = match ended {
                    [LF, ..] => eol + 1,
                    [CR, LF, ..] => eol + 2,
                    _ => return None,
                };
                continue;
            };
            let (empty, after) = empty_line(ended)?;
            let (empty, after) = (eol + empty, eol + after);
            let maybe_ill_formed = eols.high_until(eol);
            return Some(PlainBlock { event, payload, empty, after, maybe_ill_formed });
        }
    }
}

/// The end of a block's first line, so that it is looked for once.
enum FirstEol {
    Unknown,
    At(usize),
    /// Not in this chunk.
    Absent,
}

/// Where to go on, and whether now or with the next call.
enum Step {
    At(usize),
    /// The sink has enough for now.
    Stop(usize),
}

impl Step {
    fn new(flow: Flow, at: usize) -> Self {
        match flow {
            Flow::Continue => Step::At(at),
            Flow::Stop => Step::Stop(at),
        }
    }
}

/// One call of `run`: the loops over lines, compiled for each kernel.
///
/// Without `EAGER` no block without data is an event, and nobody asks: to ask costs the standard's
/// events a tenth.
struct Parse<'a, B, S, const WIRE: bool, const EAGER: bool> {
    parser: &'a mut SseParser<B>,
    chunk: &'a [u8],
    sink: &'a mut S,
}

impl<B: PayloadBuf, S: Sink<B>, const WIRE: bool, const EAGER: bool> Job
    for Parse<'_, B, S, WIRE, EAGER>
{
    type Output = Result<usize, Error<S::Error>>;

    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) -> Self::Output {
        let mut scanner = Scanner::new(kernel, self.chunk);
        let mut pos = 0;
        while pos < self.chunk.len() {
            let step = if self.parser.mode != Mode::Idle || self.parser.after_cr {
                self.resume(&mut scanner, pos)
            } else {
                self.blocks(&mut scanner, pos)
            };
            match step? {
                Step::At(at) => pos = at,
                Step::Stop(at) => {
                    pos = at;
                    break;
                }
            }
        }
        self.parser.counts.bytes += pos as u64;
        Ok(pos)
    }
}

impl<B: PayloadBuf, S: Sink<B>, const WIRE: bool, const EAGER: bool> Parse<'_, B, S, WIRE, EAGER> {
    /// The position after the line end at `eol`. A CR ends its line at once; an LF
    /// that the next chunk brings right after it is swallowed there.
    #[inline(always)]
    fn after_eol(&mut self, eol: usize) -> usize {
        let next = eol + 1;
        if self.chunk[eol] == CR {
            match self.chunk.get(next) {
                Some(&LF) => return next + 1,
                Some(_) => {}
                None => self.parser.after_cr = true,
            }
        }
        next
    }

    /// Blocks that begin in this chunk, from a position outside any block.
    #[inline(always)]
    fn blocks<K: Kernel>(
        &mut self,
        scanner: &mut Scanner<'_, K>,
        mut pos: usize,
    ) -> Result<Step, Error<S::Error>> {
        let chunk = self.chunk;
        while let Some(&first) = chunk.get(pos) {
            if is_eol(first) {
                if EAGER && self.parser.profile.dataless() == Dataless::AnyValue {
                    self.open_block(scanner, pos, pos)?;
                    break;
                }
                pos = self.after_eol(pos);
                continue;
            }
            if !WIRE && first == b':' {
                let Some(eol) = scanner.next_eol(pos) else {
                    self.parser.mode = Mode::Comment;
                    return Ok(Step::At(chunk.len()));
                };
                self.parser.counts.comments += 1;
                pos = self.after_eol(eol);
                continue;
            }
            scanner.mark(pos);
            let mut first_eol = FirstEol::Unknown;
            if !WIRE && let Some(step) = self.plain_block(scanner, pos, &mut first_eol) {
                match step? {
                    Step::At(at) => pos = at,
                    stop @ Step::Stop(_) => return Ok(stop),
                }
                continue;
            }
            match self.block(scanner, pos, first_eol)? {
                Step::At(at) => pos = at,
                stop @ Step::Stop(_) => return Ok(stop),
            }
            if self.parser.mode != Mode::Idle {
                break;
            }
        }
        Ok(Step::At(pos))
    }

    /// The shape of nearly every event: one data line with a value, before it perhaps one with an
    /// event type, then an empty line.
    ///
    /// None: it is another shape, and nothing has been done but to look for the end of its first
    /// line, which is then in `first_eol`.
    #[inline(always)]
    fn plain_block<K: Kernel>(
        &mut self,
        scanner: &mut Scanner<'_, K>,
        start: usize,
        first_eol: &mut FirstEol,
    ) -> Option<Result<Step, Error<S::Error>>> {
        let chunk = self.chunk;
        let mut event: &[u8] = b"";
        let mut data = start;
        if chunk[start..].starts_with(b"event: ") {
            let found = scanner.next_eol(start);
            *first_eol = found.map_or(FirstEol::Absent, FirstEol::At);
            let eol = found?;
            event = chunk.get(start + 7..eol)?;
            data = match (chunk[eol], chunk.get(eol + 1)?) {
                (LF, _) => eol + 1,
                (_, &LF) => eol + 2,
                _ => return None,
            };
        }
        let line = chunk.get(data..)?.strip_prefix(b"data: ")?;
        let after_event = *scanner;
        let found = scanner.next_eol(data);
        let ends = found.and_then(|eol| {
            let (empty, after) = empty_line(chunk.get(eol..)?)?;
            let (empty, after) = (eol + empty, eol + after);
            (empty <= start + self.parser.max_event_bytes).then_some((eol, after))
        });
        let Some((eol, after)) = ends else {
            if data == start {
                *first_eol = found.map_or(FirstEol::Absent, FirstEol::At);
            } else {
                *scanner = after_event; // for it does not go back
            }
            return None;
        };
        let payload = &line[..eol.checked_sub(data + 6)?];
        let replaced = if scanner.high_until(eol) {
            count_replaced(payload) + if event.is_empty() { 0 } else { count_replaced(event) }
        } else {
            0
        };
        self.parser.counts.events += 1;
        self.parser.counts.replaced += replaced;
        let block = Block {
            payload: Payload::Slice(payload),
            event,
            retry: None,
            replaced,
            offset: self.parser.counts.bytes + start as u64,
            wire: None,
            torn: false,
        };
        Some(match self.sink.event(block) {
            Ok(flow) => Ok(Step::new(flow, after)),
            Err(error) => Err(self.sink_failed(after, error)),
        })
    }

    /// The block that begins at `start`; the end of its first line may be known.
    #[inline(always)]
    fn block<K: Kernel>(
        &mut self,
        scanner: &mut Scanner<'_, K>,
        start: usize,
        mut first_eol: FirstEol,
    ) -> Result<Step, Error<S::Error>> {
        let chunk = self.chunk;
        let limit_at = start + self.parser.max_event_bytes;
        let nothing = Span { start, end: start };
        let mut fields = Fields {
            event: nothing,
            id: None,
            retry: None,
            data: nothing,
            data_lines: 0,
            first_field: None,
        };
        let mut pos = start;
        while let Some(&first) = chunk.get(pos) {
            if is_eol(first) {
                if EAGER
                    && fields.data_lines == 0
                    && self.parser.profile.dataless() != Dataless::Dropped
                {
                    self.open_block(scanner, start, pos)?;
                    return Ok(Step::At(pos));
                }
                let after = self.after_eol(pos);
                let flow = self.dispatch(scanner, start, pos, after, &fields)?;
                return Ok(Step::new(flow, after));
            }
            let eol = match std::mem::replace(&mut first_eol, FirstEol::Unknown) {
                FirstEol::Unknown => scanner.next_eol(pos),
                FirstEol::At(eol) => Some(eol),
                FirstEol::Absent => None,
            };
            let Some(eol) = eol else {
                if chunk.len() > limit_at {
                    return self.exceeded(limit_at, Mode::SkipLine, chunk.len());
                }
                break;
            };
            if eol >= limit_at {
                let after = self.after_eol(eol);
                return self.exceeded(limit_at, Mode::SkipStart, after);
            }
            let line = &chunk[pos..eol];
            let said = read_line(line);
            // Values are suffixes of their lines.
            let span = |value: &[u8]| Span { start: eol - value.len(), end: eol };
            match said {
                Line::Data(value) => {
                    fields.data = span(value);
                    fields.data_lines += 1;
                }
                Line::Event(value) => fields.event = span(value),
                Line::Id(value) => fields.id = Some(span(value)),
                Line::Retry(time) => fields.retry = Some(time),
                Line::Comment | Line::Invalid | Line::Unknown => {}
            }
            if fields.first_field.is_none() && said != Line::Comment {
                fields.first_field = Some(pos);
            }
            self.parser.count(said);
            pos = self.after_eol(eol);
            if pos > limit_at {
                // The LF of a CRLF is the first byte past the limit.
                return self.exceeded(limit_at, Mode::SkipStart, pos);
            }
        }
        self.open_block(scanner, start, chunk.len())?;
        Ok(Step::At(chunk.len()))
    }

    /// The empty line at `end` of a block that began in this chunk at `start`.
    #[inline(always)]
    fn dispatch<K: Kernel>(
        &mut self,
        scanner: &Scanner<'_, K>,
        start: usize,
        end: usize,
        after: usize,
        fields: &Fields,
    ) -> Result<Flow, Error<S::Error>> {
        let chunk = self.chunk;
        if let Some(id) = fields.id {
            let committed = self.sink.commit_id(&chunk[id.start..id.end]);
            committed.map_err(|error| self.sink_failed(after, error))?;
        }
        let Some(first_field) = fields.first_field else {
            return Ok(Flow::Continue);
        };
        if fields.data_lines == 0 {
            self.parser.counts.empty_blocks += 1;
            return Ok(Flow::Continue);
        }
        let event = &chunk[fields.event.start..fields.event.end];
        let mut joined;
        let payload = if fields.data_lines == 1 {
            Payload::Slice(&chunk[fields.data.start..fields.data.end])
        } else {
            joined = join_data(&chunk[start..end])?;
            Payload::Owned(&mut joined)
        };
        let mut replaced = 0;
        if scanner.high_until(end) {
            replaced = count_replaced(payload.as_slice()) + count_replaced(event);
            if let Some(id) = fields.id {
                replaced += count_replaced(&chunk[id.start..id.end]);
            }
        }
        self.parser.counts.events += 1;
        self.parser.counts.replaced += replaced;
        let block = Block {
            payload,
            event,
            retry: fields.retry,
            replaced,
            offset: self.parser.counts.bytes + first_field as u64,
            // Not the LF of a CRLF: another cut would have dispatched before it.
            wire: WIRE.then_some(Payload::Slice(&chunk[start..=end])),
            torn: false,
        };
        self.sink.event(block).map_err(|error| self.sink_failed(after, error))
    }

    #[cold]
    fn sink_failed(&mut self, at: usize, error: S::Error) -> Error<S::Error> {
        self.parser.counts.bytes += at as u64;
        Error::Sink(error)
    }

    /// A block outgrew the limit at `limit_at`: fail there, or skip on from `after`.
    #[cold]
    fn exceeded(
        &mut self,
        limit_at: usize,
        skip: Mode,
        after: usize,
    ) -> Result<Step, Error<S::Error>> {
        if !self.parser.skip_oversize {
            self.parser.counts.bytes += limit_at as u64;
            return Err(Error::Limit { offset: self.parser.counts.bytes });
        }
        self.parser.counts.skipped += 1;
        self.parser.mode = skip;
        Ok(Step::At(after))
    }

    /// Keeps the block that began at `start`, as far as `end`, to go on with it there: the chunk
    /// ends, or it is a block without data that may be an event.
    #[cold]
    fn open_block<K: Kernel>(
        &mut self,
        scanner: &Scanner<'_, K>,
        start: usize,
        end: usize,
    ) -> Result<(), OutOfMemory> {
        let mut open = self.parser.open.take().unwrap_or_else(|| Box::new(Open::new()));
        open.maybe_ill_formed = scanner.high_until(end);
        let mut rest = &self.chunk[start..end];
        while !rest.is_empty() {
            let Some(end) = memchr::memchr2(LF, CR, rest) else {
                open.begin_line::<WIRE>(rest)?;
                open.pending += rest.len();
                break;
            };
            let (line, after) = rest.split_at(end);
            open.keep_line::<WIRE>(line, read_line(line))?;
            let crlf = after.starts_with(b"\r\n");
            for &eol in &after[..=usize::from(crlf)] {
                open.keep_eol::<WIRE>(eol)?;
                open.pending += 1;
            }
            open.pending += end;
            rest = &after[1 + usize::from(crlf)..];
        }
        self.parser.open = Some(open);
        self.parser.mode = Mode::Open;
        Ok(())
    }

    /// Goes on where an earlier chunk ended, until outside any block.
    #[inline(always)]
    fn resume<K: Kernel>(
        &mut self,
        scanner: &mut Scanner<'_, K>,
        mut pos: usize,
    ) -> Result<Step, Error<S::Error>> {
        let chunk = self.chunk;
        if std::mem::take(&mut self.parser.after_cr) && chunk[pos] == LF {
            pos += 1;
            if self.parser.mode == Mode::Open
                && let Some(open) = &mut self.parser.open
            {
                if open.pending == self.parser.max_event_bytes {
                    open.clear();
                    return self.exceeded(pos - 1, Mode::SkipStart, pos);
                }
                open.keep_eol::<WIRE>(LF)?;
                open.pending += 1;
            }
        }
        while pos < chunk.len() {
            match self.parser.mode {
                Mode::Bom(_) | Mode::AfterBom | Mode::Idle => break,
                Mode::Open => return self.go_on(scanner, pos),
                Mode::SkipStart if is_eol(chunk[pos]) => {
                    self.parser.mode = Mode::Idle;
                    pos = self.after_eol(pos);
                }
                mode @ (Mode::Comment | Mode::SkipStart | Mode::SkipLine) => {
                    let Some(eol) = scanner.next_eol(pos) else {
                        if mode == Mode::SkipStart {
                            self.parser.mode = Mode::SkipLine;
                        }
                        return Ok(Step::At(chunk.len()));
                    };
                    if mode == Mode::Comment {
                        self.parser.counts.comments += 1;
                        self.parser.mode = Mode::Idle;
                    } else {
                        self.parser.mode = Mode::SkipStart;
                    }
                    pos = self.after_eol(eol);
                }
            }
        }
        Ok(Step::At(pos))
    }

    /// Goes on with the open block, to its empty line or the end of the chunk.
    #[inline(always)]
    fn go_on<K: Kernel>(
        &mut self,
        scanner: &mut Scanner<'_, K>,
        mut pos: usize,
    ) -> Result<Step, Error<S::Error>> {
        let chunk = self.chunk;
        let Some(mut open) = self.parser.open.take() else {
            self.parser.mode = Mode::Idle;
            return Ok(Step::At(pos));
        };
        let limit_at = pos + (self.parser.max_event_bytes - open.pending);
        scanner.mark(pos);
        while let Some(&first) = chunk.get(pos) {
            if open.line == OpenLine::Start && is_eol(first) {
                open.maybe_ill_formed |= scanner.high_until(pos);
                let after = self.after_eol(pos);
                self.parser.mode = Mode::Idle;
                let at = self.parser.counts.bytes + pos as u64;
                let flow = self.parser.dispatch_open(&mut open, at, &chunk[pos..=pos], self.sink);
                open.clear();
                self.parser.open = Some(open);
                return match flow {
                    Ok(flow) => Ok(Step::new(flow, after)),
                    Err(Error::Sink(error)) => Err(self.sink_failed(after, error)),
                    Err(error) => Err(error),
                };
            }
            let eol = scanner.next_eol(pos);
            let end = eol.unwrap_or(chunk.len());
            if end > limit_at || (eol.is_some() && end == limit_at) {
                open.clear();
                self.parser.open = Some(open);
                return match eol {
                    None => self.exceeded(limit_at, Mode::SkipLine, chunk.len()),
                    Some(eol) => {
                        let after = self.after_eol(eol);
                        self.exceeded(limit_at, Mode::SkipStart, after)
                    }
                };
            }
            let part = &chunk[pos..end];
            match (open.line, eol) {
                (OpenLine::Start, Some(_)) => {
                    let said = read_line(part);
                    open.keep_line::<WIRE>(part, said)?;
                    self.parser.count(said);
                }
                (OpenLine::Start, None) => open.begin_line::<WIRE>(part)?,
                (_, None) => open.extend_line::<WIRE>(part)?,
                (_, Some(_)) => {
                    open.extend_line::<WIRE>(part)?;
                    let said = open.end_line::<WIRE>()?;
                    self.parser.count(said);
                }
            }
            open.pending += part.len();
            pos = end;
            if let Some(eol) = eol {
                pos = self.after_eol(eol);
                if pos > limit_at {
                    open.clear();
                    self.parser.open = Some(open);
                    return self.exceeded(limit_at, Mode::SkipStart, pos);
                }
                for &byte in &chunk[eol..pos] {
                    open.keep_eol::<WIRE>(byte)?;
                    open.pending += 1;
                }
            }
        }
        open.maybe_ill_formed |= scanner.high_until(chunk.len());
        self.parser.open = Some(open);
        Ok(Step::At(chunk.len()))
    }
}
