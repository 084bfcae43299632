//! One pass over a chunk: what the framings share.

use super::grammar::{Outcome, is_white};
use super::{Frame, Framing, JsonParser, Kind, Mode, Offset, Sink, Turn, index, is_self_delimited};
use crate::scan_json::Strings;
use crate::sse::{Error, Flow, Payload};
use crate::{OutOfMemory, PayloadBuf};

pub(super) type Scanned<E> = Result<(Turn, usize), Error<E>>;

/// One pass over a chunk.
pub(super) struct Run<'a, 'p, B, S> {
    pub parser: &'p mut JsonParser<B>,
    pub bytes: &'a [u8],
    pub base: u64,
    pub strings: Strings<'a>,
    pub sink: &'p mut S,
}

impl<B: PayloadBuf, S: Sink<B>> Run<'_, '_, B, S> {
    #[inline(always)]
    pub(super) fn scan(&mut self, pos: usize) -> Scanned<S::Error> {
        match self.parser.framing {
            Framing::Concatenated => self.concatenated(pos),
            Framing::Ndjson => self.ndjson(pos),
            Framing::Array => self.array(pos),
            Framing::JsonSeq => self.json_seq(pos),
        }
    }

    // What the framings share.

    #[inline(always)]
    pub(super) fn offset(&self, pos: usize) -> u64 {
        self.base + pos as u64
    }

    /// The next byte that is not white space; `pos` moves to it.
    #[inline(always)]
    pub(super) fn next(&self, pos: &mut usize) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(*pos)?;
            if byte > b' ' || !is_white(byte) {
                return Some(byte);
            }
            *pos += 1;
        }
    }

    /// The position of the next `byte`, or the end.
    pub(super) fn find(&self, byte: u8, pos: usize) -> Option<usize> {
        memchr::memchr(byte, &self.bytes[pos..]).map(|at| pos + at)
    }

    /// Opens a unit at `pos`.
    #[inline(always)]
    pub(super) fn open(&mut self, pos: usize, mode: Mode) {
        self.parser.start = self.offset(pos);
        self.parser.mode = mode;
    }

    #[inline(always)]
    pub(super) fn outgrows(&self, start: u64, now: u64) -> Result<bool, Error<S::Error>> {
        let limit = self.parser.limit();
        if now - start <= limit {
            Ok(false)
        } else if self.parser.skip_oversize {
            Ok(true)
        } else {
            Err(Error::Limit { offset: start + limit })
        }
    }

    /// Makes `held` reach to `end`, if it is of a unit that began before the chunk.
    pub(super) fn hold(&mut self, end: u64) -> Result<(), OutOfMemory> {
        let parser = &mut *self.parser;
        let held_to = parser.held_from + parser.held.as_slice().len() as u64;
        if held_to < end {
            let (begin, end) = (index(self.base, held_to), index(self.base, end));
            parser.held.extend(&self.bytes[begin..end])?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn hand_out(
        &mut self,
        payload: &[u8],
        kind: Kind,
        offset: u64,
    ) -> Result<Flow, Error<S::Error>> {
        self.parser.stats.count(kind);
        let frame = Frame { payload: Payload::Slice(payload), kind, offset };
        self.sink.frame(frame).map_err(Error::Sink)
    }

    /// Hands out the value at `start..end`, or that it is none for the parser.
    #[inline(always)]
    pub(super) fn value(
        &mut self,
        start: u64,
        end: u64,
        now: u64,
    ) -> Result<Flow, Error<S::Error>> {
        if self.outgrows(start, now)? {
            return self.hand_out(b"", Kind::Oversize, start);
        }
        if start < self.base {
            return self.held_value(start, end);
        }
        let bytes = self.bytes;
        let text = &bytes[index(self.base, start)..index(self.base, end)];
        let kind = if self.parser.grammar.is_valid(text) { Kind::Value } else { Kind::Syntax };
        self.hand_out(text, kind, start)
    }

    #[inline(never)]
    pub(super) fn held_value(&mut self, start: u64, end: u64) -> Result<Flow, Error<S::Error>> {
        self.hold(end)?;
        let parser = &mut *self.parser;
        let (begin, end) = (index(parser.held_from, start), index(parser.held_from, end));
        let text = &parser.held.as_slice()[begin..end];
        let kind = if parser.grammar.is_valid(text) { Kind::Value } else { Kind::Syntax };
        self.hand_out_held(begin, end, kind, start)
    }

    /// Hands out a part of `held`; all of it may be taken.
    pub(super) fn hand_out_held(
        &mut self,
        begin: usize,
        end: usize,
        kind: Kind,
        offset: u64,
    ) -> Result<Flow, Error<S::Error>> {
        let parser = &mut *self.parser;
        parser.stats.count(kind);
        let payload = if begin == 0 && end == parser.held.as_slice().len() {
            Payload::Owned(&mut parser.held)
        } else {
            Payload::Slice(&parser.held.as_slice()[begin..end])
        };
        self.sink.frame(Frame { payload, kind, offset }).map_err(Error::Sink)
    }

    /// Hands out an error at `start..end`, less the white space at its end.
    #[inline(never)]
    pub(super) fn error(
        &mut self,
        kind: Kind,
        start: u64,
        end: u64,
        now: u64,
    ) -> Result<Flow, Error<S::Error>> {
        fn trimmed(bytes: &[u8]) -> usize {
            bytes.iter().rposition(|&byte| !is_white(byte)).map_or(0, |at| at + 1)
        }
        if self.outgrows(start, now)? {
            return self.hand_out(b"", Kind::Oversize, start);
        }
        if start >= self.base {
            let bytes = self.bytes;
            let bytes = &bytes[index(self.base, start)..index(self.base, end)];
            return self.hand_out(&bytes[..trimmed(bytes)], kind, start);
        }
        self.hold(end)?;
        let parser = &mut *self.parser;
        let (begin, end) = (index(parser.held_from, start), index(parser.held_from, end));
        let end = begin + trimmed(&parser.held.as_slice()[begin..end]);
        self.hand_out_held(begin, end, kind, start)
    }

    /// Hands out what the end of the stream cuts.
    pub(super) fn rest(&mut self, start: u64) -> Result<Flow, Error<S::Error>> {
        if self.outgrows(start, self.base)? {
            return self.hand_out(b"", Kind::Oversize, start);
        }
        let parser = &mut *self.parser;
        let begin = index(parser.held_from, start);
        let end = parser.held.as_slice().len();
        self.hand_out_held(begin, end, Kind::Torn, start)
    }

    /// Closes the open unit.
    #[inline(always)]
    pub(super) fn closed(&mut self, mode: Mode) {
        let parser = &mut *self.parser;
        parser.mode = mode;
        parser.candidate = None;
        if parser.held_from < self.base {
            parser.held = B::default();
            parser.held_from = self.base;
        }
    }

    /// A value settled in the open unit.
    #[inline(always)]
    pub(super) fn settle_value(
        &mut self,
        end: u64,
        pos: usize,
        mode: Mode,
    ) -> Result<Flow, Error<S::Error>> {
        let flow = self.value(self.parser.start, end, self.offset(pos))?;
        self.closed(mode);
        Ok(flow)
    }

    /// The open unit is an error.
    pub(super) fn settle_error(
        &mut self,
        kind: Kind,
        pos: usize,
        mode: Mode,
    ) -> Result<Flow, Error<S::Error>> {
        let now = self.offset(pos);
        let flow = self.error(kind, self.parser.start, now, now)?;
        self.closed(mode);
        Ok(flow)
    }

    /// What the end of the stream settles.
    pub(super) fn finish(&mut self) -> Result<(), Error<S::Error>> {
        let (start, end, now) = (self.parser.start, self.parser.end, self.base);
        if !self.parser.mode.is_open() {
            return Ok(());
        }
        match (self.parser.framing, self.parser.mode) {
            (Framing::Concatenated, Mode::Whole) => self.value(start, end, now)?,
            (Framing::Ndjson, Mode::Whole) => self.finish_line(start, end)?,
            (Framing::JsonSeq, Mode::Whole)
                if is_self_delimited(self.parser.first) || now > end =>
            {
                self.value(start, end, now)?
            }
            (Framing::Ndjson, _) | (_, Mode::Value | Mode::Whole) => self.rest(start)?,
            (_, Mode::Marks | Mode::Garbage) => self.error(Kind::Garbage, start, now, now)?,
            (_, Mode::Bad) => self.error(Kind::Syntax, start, now, now)?,
            (_, Mode::Candidate) => {
                let candidate = self.parser.candidate.map_or(start, Offset::get);
                self.error(self.parser.kind, start, candidate, now)?;
                self.rest(candidate)?
            }
            (_, Mode::CandidateWhole) => self.settle_candidate(now)?,
            _ => self.error(self.parser.kind, start, now, now)?,
        };
        Ok(())
    }

    /// A last line without LF counts if it is one text.
    pub(super) fn finish_line(&mut self, start: u64, end: u64) -> Result<Flow, Error<S::Error>> {
        let parser = &*self.parser;
        let held = parser.held.as_slice();
        let is_value = self.base - start <= parser.limit()
            && parser.grammar.is_valid(&held[..index(parser.held_from, end)]);
        if is_value { self.value(start, end, self.base) } else { self.rest(start) }
    }

    #[inline(always)]
    pub(super) fn begin_value(&mut self, pos: usize, byte: u8) {
        self.parser.grammar.begin();
        self.open(pos, Mode::Value);
        self.parser.first = byte;
    }

    #[inline(always)]
    pub(super) fn read(&mut self, pos: &mut usize) -> Outcome {
        let (outcome, at) = self.parser.grammar.scan::<false>(self.bytes, *pos, &mut self.strings);
        *pos = at;
        outcome
    }
}
