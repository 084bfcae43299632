//! The elements of one top-level array.

use super::grammar::{Outcome, is_white};
use super::run::{Run, Scanned};
use super::{Kind, LF, Lost, MAX_RETURNS, Mode, Sink, Tail, Turn};
use super::{begins_scalar, begins_value, index, is_container, is_mark, is_self_delimited};
use crate::PayloadBuf;
use crate::sse::{Error, Flow};

impl<B: PayloadBuf, S: Sink<B>> Run<'_, '_, B, S> {
    #[inline(always)]
    pub(super) fn array(&mut self, mut pos: usize) -> Scanned<S::Error> {
        loop {
            let mut flow = Flow::Continue;
            match self.parser.mode {
                Mode::Value => match self.read(&mut pos) {
                    Outcome::More => return Ok((Turn::End, pos)),
                    Outcome::Whole if is_container(self.parser.first) => {
                        flow = self.settle_value(self.offset(pos), pos, Mode::AfterElement)?;
                    }
                    Outcome::Whole => {
                        self.parser.end = self.offset(pos);
                        self.parser.mode = Mode::Whole;
                    }
                    Outcome::Failed => {
                        if let Some(turn) = self.malformed(pos, Kind::Syntax)? {
                            return Ok((turn, pos));
                        }
                    }
                },
                Mode::AfterElement => match self.next(&mut pos) {
                    None => return Ok((Turn::End, pos)),
                    Some(b',') => self.after_comma(&mut pos),
                    Some(b']') => self.array_ends(&mut pos),
                    Some(byte) if begins_value(byte) => {
                        flow = self.hand_out(b"", Kind::Separator, self.offset(pos))?;
                        self.parser.mode = Mode::BeforeElement;
                    }
                    Some(_) => {
                        self.parser.grammar.begin();
                        self.open(pos, Mode::Lost);
                        self.malformed(pos, Kind::Garbage)?;
                    }
                },
                Mode::AfterComma | Mode::BeforeElement => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    if begins_value(byte) {
                        self.begin_value(pos, byte);
                    } else if byte == b',' {
                        flow = self.hand_out(b",", Kind::Separator, self.offset(pos))?;
                        self.after_comma(&mut pos);
                    } else if byte == b']' {
                        if self.parser.mode == Mode::AfterComma {
                            flow = self.hand_out(b",", Kind::Separator, self.parser.comma)?;
                        }
                        self.array_ends(&mut pos);
                    } else {
                        self.parser.grammar.begin();
                        self.open(pos, Mode::Lost);
                        self.malformed(pos, Kind::Syntax)?;
                    }
                }
                Mode::Whole => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    let end = self.parser.end;
                    let is_apart = self.offset(pos) > end;
                    if matches!(byte, b',' | b']')
                        || is_self_delimited(byte)
                        || (is_apart && begins_scalar(byte))
                    {
                        flow = self.settle_value(end, pos, Mode::AfterElement)?;
                    } else if let Some(turn) = self.malformed(pos, Kind::Syntax)? {
                        return Ok((turn, pos));
                    }
                }
                Mode::Idle => match self.next(&mut pos) {
                    None => return Ok((Turn::End, pos)),
                    Some(b'[') => {
                        self.parser.mode = Mode::BeforeElement;
                        pos += 1;
                    }
                    Some(_) => self.open(pos, Mode::Garbage),
                },
                Mode::AfterArray => match self.next(&mut pos) {
                    None => return Ok((Turn::End, pos)),
                    Some(_) => self.open(pos, Mode::Garbage),
                },
                Mode::Lost => match self.find_separator(pos) {
                    None => return Ok((Turn::End, self.bytes.len())),
                    Some(at) => {
                        pos = at;
                        flow = self.settle_error(self.parser.kind, pos, Mode::AfterElement)?;
                    }
                },
                _ => return Ok((Turn::End, self.bytes.len())),
            }
            if flow == Flow::Stop {
                return Ok((Turn::Stop, pos));
            }
        }
    }

    #[inline(always)]
    fn after_comma(&mut self, pos: &mut usize) {
        self.parser.comma = self.offset(*pos);
        self.parser.mode = Mode::AfterComma;
        *pos += 1;
    }

    fn array_ends(&mut self, pos: &mut usize) {
        self.parser.array_closed = true;
        self.parser.mode = Mode::AfterArray;
        *pos += 1;
    }

    /// Resyncs after the failing byte: in what was read of the element, or further on.
    #[cold]
    fn malformed(&mut self, pos: usize, kind: Kind) -> Result<Option<Turn>, Error<S::Error>> {
        let now = self.offset(pos);
        let start = self.parser.start;
        self.parser.kind = kind;
        if !self.outgrows(start, now)?
            && let Some(first) = self.comma_line(pos, false)
        {
            let parser = &mut *self.parser;
            if parser.returned_from != now {
                parser.returned_from = now;
                parser.returns = 0;
            }
            let last = parser.returns == MAX_RETURNS;
            parser.returns = parser.returns.saturating_add(1);
            parser.replay_end = parser.replay_end.max(now);
            let comma = if last { self.comma_line(pos, true).unwrap_or(first) } else { first };
            let flow = self.error(kind, start, comma, now)?;
            if comma >= self.base {
                self.closed(Mode::AfterElement);
            } else {
                self.parser.mode = Mode::AfterElement;
            }
            return Ok(Some(Turn::Return(comma, flow)));
        }
        let parser = &mut *self.parser;
        let (before, tail) = if start < self.base {
            (&self.bytes[..pos], &parser.tail)
        } else {
            (&self.bytes[index(self.base, start)..pos], &Tail::default())
        };
        let token = before.iter().rfind(|&&byte| !is_white(byte)).copied();
        let in_string = parser.grammar.is_in_string();
        parser.mode = Mode::Lost;
        parser.lost = Lost {
            counting: true,
            in_string,
            escaped: false,
            after_string: !in_string && token.unwrap_or(tail.last_token) == b'"',
            at_line_begin: before.last().copied().unwrap_or(tail.last) == LF,
            previous: 0,
        };
        Ok(None)
    }

    /// The offset of the first or last comma that begins a line of the element, before `pos`.
    fn comma_line(&self, pos: usize, last: bool) -> Option<u64> {
        use memchr::memmem;
        let parser = &*self.parser;
        let line = b"\n,";
        let held = parser.held.as_slice();
        let (held, here) = if parser.start < self.base {
            (&held[index(parser.held_from, parser.start)..], &self.bytes[..pos])
        } else {
            (&held[..0], &self.bytes[index(self.base, parser.start)..pos])
        };
        let held_from = parser.start;
        let here_from = held_from + held.len() as u64;
        let find = |bytes: &[u8]| {
            if last { memmem::rfind(bytes, line) } else { memmem::find(bytes, line) }
        };
        let in_held = || find(held).map(|at| held_from + at as u64 + 1);
        let between =
            || (held.last() == Some(&LF) && here.first() == Some(&b',')).then_some(here_from);
        let in_here = || find(here).map(|at| here_from + at as u64 + 1);
        if last {
            in_here().or_else(between).or_else(in_held)
        } else {
            in_held().or_else(between).or_else(in_here)
        }
    }

    /// The separator that puts the stream back in step, from `pos` on.
    ///
    /// It is a comma or bracket that begins a line; or one at the array's own depth,
    /// as long as the count of brackets and strings holds good.
    #[inline(never)]
    fn find_separator(&mut self, mut pos: usize) -> Option<usize> {
        while let Some(&byte) = self.bytes.get(pos) {
            if self.parser.lost.at_line_begin && matches!(byte, b',' | b']') {
                return Some(pos);
            }
            if self.parser.lost.counting {
                if self.count(byte) {
                    return Some(pos);
                }
            } else if byte != LF {
                self.parser.lost.at_line_begin = false;
                pos = self.find(LF, pos)?;
            }
            self.parser.lost.at_line_begin = self.bytes[pos] == LF;
            pos += 1;
        }
        None
    }

    /// Counts one byte; true when it is a separator at the array's own depth.
    fn count(&mut self, byte: u8) -> bool {
        let lost = &mut self.parser.lost;
        if lost.in_string {
            match byte {
                LF => lost.counting = false,
                _ if lost.escaped => lost.escaped = false,
                b'\\' => lost.escaped = true,
                b'"' => {
                    lost.in_string = false;
                    lost.after_string = true;
                    lost.previous = byte;
                }
                _ => {}
            }
            return false;
        }
        if is_white(byte) {
            return false;
        }
        if lost.after_string && !is_mark(byte) {
            lost.counting = false;
            return false;
        }
        lost.after_string = false;
        let limit = self.parser.grammar.max_levels();
        let stack = self.parser.grammar.stack();
        match byte {
            b'"' => {
                lost.in_string = true;
                lost.counting = matches!(lost.previous, b'{' | b'[' | b',' | b':');
            }
            b'{' | b'[' if stack.depth() == limit => lost.counting = false,
            b'{' | b'[' => stack.push(byte == b'{'),
            b',' | b']' if stack.depth() == 0 => return true,
            b'}' | b']' if stack.depth() > 0 => {
                lost.counting = stack.closer() == byte;
                stack.pop();
            }
            _ => {}
        }
        lost.previous = byte;
        false
    }
}
