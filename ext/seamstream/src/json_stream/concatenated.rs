//! One value after another, with or without white space between them.

use super::grammar::{Outcome, is_white};
use super::last_brace;
use super::run::{Run, Scanned};
use super::{Kind, Mode, Offset, Sink, Turn, and};
use super::{begins_scalar, begins_value, index, is_container, is_mark, is_self_delimited};
use crate::sse::{Error, Flow};
use crate::{OutOfMemory, PayloadBuf};

impl<B: PayloadBuf, S: Sink<B>> Run<'_, '_, B, S> {
    #[inline(always)]
    pub(super) fn concatenated(&mut self, mut pos: usize) -> Scanned<S::Error> {
        loop {
            let mut flow = Flow::Continue;
            match self.parser.mode {
                Mode::Value => match self.read(&mut pos) {
                    Outcome::More => return Ok((Turn::End, pos)),
                    Outcome::Whole if is_container(self.parser.first) => {
                        flow = self.settle_value(self.offset(pos), pos, Mode::Idle)?;
                    }
                    Outcome::Whole => {
                        self.parser.end = self.offset(pos);
                        self.parser.mode = Mode::Whole;
                    }
                    Outcome::Failed => {
                        self.parser.kind = if is_container(self.parser.first) {
                            Kind::Syntax
                        } else {
                            Kind::Garbage
                        };
                        self.search(pos)?;
                    }
                },
                Mode::Whole => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    let end = self.parser.end;
                    let is_apart = self.offset(pos) > end;
                    if is_self_delimited(byte) || (is_apart && begins_scalar(byte)) {
                        flow = self.settle_value(end, pos, Mode::Idle)?;
                    } else {
                        self.parser.kind = Kind::Garbage;
                        self.search(pos)?;
                    }
                }
                Mode::Idle => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    if is_container(byte) {
                        // Most values lie in one chunk: nothing of them needs to be remembered.
                        self.parser.grammar.begin();
                        let start = pos;
                        let outcome = self.read(&mut pos);
                        if outcome == Outcome::Whole {
                            let end = self.offset(pos);
                            flow = self.value(self.offset(start), end, end)?;
                        } else {
                            self.open(start, Mode::Value);
                            self.parser.first = byte;
                            if outcome == Outcome::Failed {
                                self.parser.kind = Kind::Syntax;
                                self.search(pos)?;
                            }
                        }
                    } else if begins_value(byte) {
                        self.begin_value(pos, byte);
                    } else if is_mark(byte) {
                        self.open(pos, Mode::Marks);
                    } else {
                        self.open(pos, Mode::Seek);
                        self.parser.kind = Kind::Garbage;
                    }
                }
                _ => match self.out_of_step(&mut pos)? {
                    Some(settled) => flow = settled,
                    None => return Ok((Turn::End, pos)),
                },
            }
            if flow == Flow::Stop {
                return Ok((Turn::Stop, pos));
            }
        }
    }

    /// Goes on between frames; `None` at the end of the chunk.
    #[inline(never)]
    fn out_of_step(&mut self, pos: &mut usize) -> Result<Option<Flow>, Error<S::Error>> {
        let end = self.bytes.len();
        match self.parser.mode {
            Mode::Marks => {
                let Some(byte) = self.next(pos) else {
                    return Ok(None);
                };
                if !is_mark(byte) {
                    return self.settle_error(Kind::Garbage, *pos, Mode::Idle).map(Some);
                }
                *pos += 1;
            }
            Mode::Seek => {
                self.parser.candidate = None;
                let Some(brace) = self.find(b'{', *pos) else {
                    *pos = end;
                    return Ok(None);
                };
                self.parser.candidate = Some(Offset::new(self.offset(brace)));
                self.parser.mode = Mode::SeekQuote;
                *pos = brace + 1;
            }
            Mode::SeekQuote => match self.next(pos) {
                None => return Ok(None),
                Some(b'"') => {
                    *pos += 1;
                    self.parser.mode = Mode::SeekKey;
                }
                Some(_) => self.parser.mode = Mode::Seek,
            },
            Mode::SeekKey => match self.bytes.get(*pos) {
                None => return Ok(None),
                Some(&byte) if is_white(byte) || is_mark(byte) => self.parser.mode = Mode::Seek,
                Some(_) => {
                    self.parser.grammar.begin_in_key();
                    self.parser.mode = Mode::Candidate;
                }
            },
            Mode::Candidate => match self.read(pos) {
                Outcome::More => return Ok(None),
                Outcome::Failed => self.search(*pos)?,
                Outcome::Whole => {
                    let now = self.offset(*pos);
                    self.outgrows(self.parser.start, now)?;
                    self.parser.end = now;
                    self.parser.mode = if self.is_candidate_valid(now)? {
                        Mode::CandidateWhole
                    } else {
                        Mode::Seek
                    };
                }
            },
            _ => match self.next(pos) {
                None => return Ok(None),
                // It was nested in what was given up.
                Some(b',' | b']' | b'}') => self.parser.mode = Mode::Seek,
                Some(_) => {
                    let flow = self.settle_candidate(self.offset(*pos))?;
                    self.closed(Mode::Idle);
                    return Ok(Some(flow));
                }
            },
        }
        Ok(Some(Flow::Continue))
    }

    /// Begins a search at the failing byte, or at the brace that ended a string.
    ///
    /// A frame that was cut inside a string swallows the opening brace of the next
    /// one: its string ends where the first key of that frame begins.
    #[cold]
    fn search(&mut self, pos: usize) -> Result<(), OutOfMemory> {
        let byte = self.bytes[pos];
        let before = &self.bytes[..pos];
        let tail = &self.parser.tail;
        let last = before.last().copied().unwrap_or(tail.last);
        let grammar = &mut self.parser.grammar;
        self.parser.candidate = None;
        self.parser.mode = Mode::Seek;
        let (brace, quote, mode) = if last == b'"' && !grammar.is_in_string() {
            if is_white(byte) || is_mark(byte) {
                return Ok(());
            }
            let brace = match before.split_last() {
                Some((_, before)) => last_brace(before, self.base, tail.brace),
                None => tail.brace_before_quote,
            };
            (brace, true, Mode::Candidate)
        } else if grammar.is_in_plain_string() && is_white(byte) {
            (last_brace(before, self.base, tail.brace), false, Mode::SeekQuote)
        } else {
            return Ok(());
        };
        let Some(brace) = brace else {
            return Ok(());
        };
        if quote {
            grammar.begin_in_key();
        }
        self.parser.candidate = Some(brace);
        self.parser.mode = mode;
        self.hold_again(brace.get(), quote, pos)
    }

    /// Holds a candidate whose first bytes were dropped; they are known.
    fn hold_again(&mut self, brace: u64, quote: bool, pos: usize) -> Result<(), OutOfMemory> {
        let parser = &mut *self.parser;
        let (base, now) = (self.base, self.base + pos as u64);
        if brace >= parser.held_from || now - brace > parser.limit() {
            return Ok(());
        }
        let len = index(brace, base);
        let quoted = usize::from(quote && pos == 0);
        parser.held = B::default();
        parser.held_from = brace;
        parser.held.extend(b"{")?;
        for _ in 1..len - quoted {
            parser.held.extend(b" ")?;
        }
        parser.held.extend(&b"\""[..quoted])
    }

    fn is_candidate_valid(&mut self, end: u64) -> Result<bool, Error<S::Error>> {
        let start = self.parser.candidate.map_or(end, Offset::get);
        if self.outgrows(start, end)? {
            return Ok(true);
        }
        if start >= self.base {
            let text = &self.bytes[index(self.base, start)..index(self.base, end)];
            return Ok(self.parser.grammar.is_valid(text));
        }
        self.hold(end)?;
        let parser = &*self.parser;
        let text = &parser.held.as_slice()[index(parser.held_from, start)..];
        Ok(parser.grammar.is_valid(text))
    }

    /// Hands out what was given up before the candidate, and the candidate.
    pub(super) fn settle_candidate(&mut self, now: u64) -> Result<Flow, Error<S::Error>> {
        let candidate = self.parser.candidate.map_or(now, Offset::get);
        let flow = self.error(self.parser.kind, self.parser.start, candidate, now)?;
        Ok(and(flow, self.value(candidate, self.parser.end, now)?))
    }
}
