//! One value a line, and one after each record separator (RFC 7464).

use super::grammar::{Outcome, is_white};
use super::run::{Run, Scanned};
use super::{Kind, LF, Mode, RECORD_SEPARATOR, Sink, Turn};
use super::{begins_value, is_self_delimited};
use crate::PayloadBuf;
use crate::sse::Flow;

impl<B: PayloadBuf, S: Sink<B>> Run<'_, '_, B, S> {
    #[inline(always)]
    pub(super) fn ndjson(&mut self, mut pos: usize) -> Scanned<S::Error> {
        loop {
            let mut flow = Flow::Continue;
            match self.parser.mode {
                Mode::Value => {
                    let (outcome, at) =
                        self.parser.grammar.scan::<true>(self.bytes, pos, &mut self.strings);
                    pos = at;
                    match outcome {
                        Outcome::More => return Ok((Turn::End, pos)),
                        Outcome::Whole => {
                            self.parser.end = self.offset(pos);
                            self.parser.mode = Mode::Whole;
                        }
                        Outcome::Failed => self.parser.mode = Mode::Bad,
                    }
                }
                Mode::Whole => match self.bytes.get(pos) {
                    None => return Ok((Turn::End, pos)),
                    Some(&LF) => {
                        flow = self.settle_value(self.parser.end, pos, Mode::Idle)?;
                        pos += 1;
                    }
                    Some(&byte) if is_white(byte) => pos += 1,
                    Some(_) => self.parser.mode = Mode::Bad,
                },
                Mode::Idle => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    if begins_value(byte) {
                        self.begin_value(pos, byte);
                    } else {
                        self.open(pos, Mode::Bad);
                    }
                }
                _ => {
                    let Some(at) = self.find(LF, pos) else {
                        return Ok((Turn::End, self.bytes.len()));
                    };
                    flow = self.settle_error(Kind::Syntax, at, Mode::Idle)?;
                    pos = at + 1;
                }
            }
            if flow == Flow::Stop {
                return Ok((Turn::Stop, pos));
            }
        }
    }

    #[inline(always)]
    pub(super) fn json_seq(&mut self, mut pos: usize) -> Scanned<S::Error> {
        loop {
            let mut flow = Flow::Continue;
            match self.parser.mode {
                Mode::Value => match self.read(&mut pos) {
                    Outcome::More => return Ok((Turn::End, pos)),
                    Outcome::Whole => {
                        self.parser.end = self.offset(pos);
                        self.parser.mode = Mode::Whole;
                    }
                    Outcome::Failed if self.bytes[pos] == RECORD_SEPARATOR => {
                        flow = self.settle_error(Kind::Truncated, pos, Mode::Element)?;
                        pos += 1;
                    }
                    Outcome::Failed => self.parser.mode = Mode::Bad,
                },
                Mode::Whole => match self.bytes.get(pos) {
                    None => return Ok((Turn::End, pos)),
                    Some(&LF) => {
                        flow = self.settle_value(self.parser.end, pos, Mode::Idle)?;
                        pos += 1;
                    }
                    Some(&byte) if is_white(byte) => pos += 1,
                    Some(&RECORD_SEPARATOR) => {
                        let end = self.parser.end;
                        // A number or literal at the separator may have been cut (RFC 7464, 2.4).
                        flow = if is_self_delimited(self.parser.first) || self.offset(pos) > end {
                            self.settle_value(end, pos, Mode::Element)?
                        } else {
                            self.settle_error(Kind::Truncated, pos, Mode::Element)?
                        };
                        pos += 1;
                    }
                    Some(_) => self.parser.mode = Mode::Bad,
                },
                Mode::Idle => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    if byte == RECORD_SEPARATOR {
                        self.parser.mode = Mode::Element;
                        pos += 1;
                    } else {
                        self.open(pos, Mode::Garbage);
                    }
                }
                Mode::Element => {
                    let Some(byte) = self.next(&mut pos) else {
                        return Ok((Turn::End, pos));
                    };
                    if begins_value(byte) {
                        self.begin_value(pos, byte);
                    } else if byte == RECORD_SEPARATOR {
                        pos += 1;
                    } else {
                        self.open(pos, Mode::Bad);
                    }
                }
                mode => {
                    let Some(at) = self.find(RECORD_SEPARATOR, pos) else {
                        return Ok((Turn::End, self.bytes.len()));
                    };
                    let kind = if mode == Mode::Bad { Kind::Syntax } else { Kind::Garbage };
                    flow = self.settle_error(kind, at, Mode::Element)?;
                    pos = at + 1;
                }
            }
            if flow == Flow::Stop {
                return Ok((Turn::Stop, pos));
            }
        }
    }
}
