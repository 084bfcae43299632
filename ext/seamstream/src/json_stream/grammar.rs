//! The JSON grammar of RFC 8259 as a recogniser that can stop and go on at every byte.
//!
//! It tells where a text ends or which byte no valid text could have there, and
//! notes on the way what decides later whether a parser takes the text: bytes
//! outside ASCII, lone surrogates, numbers that may be too large, the depth. No
//! recursion: the open containers are one bit each, never more than the text has
//! bytes.
//!
//! Every byte is looked at once. Tokens that lie wholly in the chunk are read in
//! place; the state is in memory only where the chunk ends.

use crate::scan_json::Strings;

/// A number so long, with an exponent of at most two digits, cannot be too large for a double.
const HARMLESS_NUMBER: u8 = 200;

/// Levels that fit in one word.
const SHALLOW: u8 = 64;

/// What became of the text so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All bytes were read; the text may go on.
    More,
    /// The text ends before the position.
    Whole,
    /// No valid text can have this byte here.
    Failed,
}

/// What is expected next, between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value.
    Value,
    /// A value or the end of an array.
    ArrayStart,
    /// A key or the end of an object.
    ObjectStart,
    /// A key.
    Key,
    /// The colon after a key.
    Colon,
    /// A comma or a closing bracket.
    After,
    /// More of a string.
    String,
    /// What a backslash escapes.
    Escape,
    /// A hexadecimal digit of an escape.
    Hex,
    /// More of a literal.
    Literal,
    /// More of a number.
    Number(Number),
}

/// What is expected between tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ArrayStart,
    ObjectStart,
    Key,
    Colon,
    After,
}

impl State {
    /// `None` inside a token.
    const fn between_tokens(self) -> Option<Expect> {
        Some(match self {
            State::Value => Expect::Value,
            State::ArrayStart => Expect::ArrayStart,
            State::ObjectStart => Expect::ObjectStart,
            State::Key => Expect::Key,
            State::Colon => Expect::Colon,
            State::After => Expect::After,
            _ => return None,
        })
    }
}

impl From<Expect> for State {
    fn from(expect: Expect) -> Self {
        match expect {
            Expect::Value => State::Value,
            Expect::ArrayStart => State::ArrayStart,
            Expect::ObjectStart => State::ObjectStart,
            Expect::Key => State::Key,
            Expect::Colon => State::Colon,
            Expect::After => State::After,
        }
    }
}

/// Which part of a number was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Number {
    /// The part that `byte` belongs to; `None` when the number cannot go on with it.
    const fn step(self, byte: u8) -> Option<Self> {
        Some(match (byte, self) {
            (b'0', Self::Minus) => Self::Zero,
            (b'1'..=b'9', Self::Minus) | (b'0'..=b'9', Self::Integer) => Self::Integer,
            (b'0'..=b'9', Self::Point | Self::Fraction) => Self::Fraction,
            (b'0'..=b'9', Self::E | Self::Sign | Self::Exponent) => Self::Exponent,
            (b'.', Self::Zero | Self::Integer) => Self::Point,
            (b'e' | b'E', Self::Zero | Self::Integer | Self::Fraction) => Self::E,
            (b'+' | b'-', Self::E) => Self::Sign,
            _ => return None,
        })
    }

    /// Whether a number can end after this part.
    const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Exponent)
    }
}

/// The open containers: one bit each, set for an object.
#[derive(Debug, Default)]
pub(super) struct Stack {
    depth: usize,
    /// The levels of the last, possibly full group of 64, the innermost lowest.
    word: u64,
    #[allow(clippy::box_collection)] // hardly ever there, and then one word less
    words: Option<Box<Vec<u64>>>,
}

impl Stack {
    #[inline(always)]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    #[inline(always)]
    pub fn push(&mut self, is_object: bool) {
        if self.depth >= 64 && self.depth.is_multiple_of(64) {
            self.spill();
        }
        self.word = self.word << 1 | u64::from(is_object);
        self.depth += 1;
    }

    #[cold]
    fn spill(&mut self) {
        self.words.get_or_insert_default().push(self.word);
    }

    #[inline(always)]
    pub fn pop(&mut self) {
        self.depth -= 1;
        self.word >>= 1;
        if self.depth >= 64 && self.depth.is_multiple_of(64) {
            self.unspill();
        }
    }

    #[cold]
    fn unspill(&mut self) {
        self.word = self.words.as_mut().and_then(|words| words.pop()).unwrap_or(0);
    }

    /// Whether the innermost container is an object.
    #[inline(always)]
    pub const fn is_object(&self) -> bool {
        self.word & 1 != 0
    }

    /// The byte that closes the innermost container.
    #[inline(always)]
    pub const fn closer(&self) -> u8 {
        closer(self.is_object())
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.depth = 0;
        self.word = 0;
        if self.words.is_some() {
            self.words = None;
        }
    }
}

/// White space by RFC 8259.
pub(super) const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Recognises one text after another.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // what was met on the way
pub(super) struct Grammar {
    state: State,
    stack: Stack,
    max_depth: usize,
    max_levels: usize,
    /// Below so many levels there is nothing to look at when one is added.
    shallow: u8,
    /// More levels than `max_depth`.
    too_deep: bool,
    lone_surrogate: bool,
    maybe_non_ascii: bool,
    maybe_too_large: bool,
    is_key: bool,
    /// Whether the string so far ends with the escape of a high surrogate.
    high_surrogate: bool,
    /// The first byte of a literal.
    literal: u8,
    literal_read: u8,
    hex_digits: u8,
    code_unit: u16,
    /// These two count no further than 255.
    number_len: u8,
    exponent_digits: u8,
}

impl Grammar {
    /// `max_depth` is what a parser takes; one container more than `max_levels` fails.
    pub fn new(max_depth: usize, max_levels: usize) -> Self {
        Grammar {
            state: State::Value,
            stack: Stack::default(),
            max_depth,
            max_levels,
            #[allow(clippy::cast_possible_truncation)] // no more than SHALLOW
            shallow: max_depth.min(max_levels).min(usize::from(SHALLOW)) as u8,
            too_deep: false,
            lone_surrogate: false,
            maybe_non_ascii: false,
            maybe_too_large: false,
            is_key: false,
            high_surrogate: false,
            literal: 0,
            literal_read: 0,
            hex_digits: 0,
            code_unit: 0,
            number_len: 0,
            exponent_digits: 0,
        }
    }

    /// Expects a new text.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.state = State::Value;
        self.stack.clear();
        self.too_deep = false;
        self.lone_surrogate = false;
        self.maybe_non_ascii = false;
        self.maybe_too_large = false;
    }

    /// Expects the rest of a text that begins with `{` and the opening quote of a key.
    pub fn begin_in_key(&mut self) {
        self.begin();
        self.push(true);
        self.state = State::String;
        self.is_key = true;
        self.high_surrogate = false;
    }

    /// The most levels that a value may have.
    pub const fn max_depth(&self) -> usize {
        self.max_depth
    }

    /// The most containers that may be open, and no byte fails for it.
    pub const fn max_levels(&self) -> usize {
        self.max_levels
    }

    /// The open containers.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Whether the text stopped inside a string, an escape in it included.
    pub const fn is_in_string(&self) -> bool {
        matches!(self.state, State::String | State::Escape | State::Hex)
    }

    /// Whether the text stopped inside a string, not in an escape.
    pub fn is_in_plain_string(&self) -> bool {
        self.state == State::String
    }

    /// Whether a parser takes `text`, which the grammar has just found whole.
    #[inline(always)]
    pub fn is_valid(&self, text: &[u8]) -> bool {
        !(self.too_deep | self.lone_surrogate)
            && (!self.maybe_non_ascii || simdutf8::basic::from_utf8(text).is_ok())
            && (!self.maybe_too_large || numbers_are_finite(text))
    }

    /// False when one container more fails.
    #[inline(always)]
    fn push(&mut self, is_object: bool) -> bool {
        if self.stack.depth >= self.max_depth {
            self.too_deep = true;
        }
        if self.stack.depth >= self.max_levels {
            return false;
        }
        self.stack.push(is_object);
        true
    }

    /// Reads on from `pos`; gives the position after the text, or of the failing byte.
    ///
    /// With `LF_FAILS` a line feed between tokens is no white space.
    #[inline(never)]
    pub fn scan<const LF_FAILS: bool>(
        &mut self,
        bytes: &[u8],
        pos: usize,
        strings: &mut Strings<'_>,
    ) -> (Outcome, usize) {
        // A copy that nothing else refers to stays in registers.
        let mut walk = *strings;
        walk.mark(pos);
        let result = self.scan_on::<LF_FAILS>(bytes, pos, &mut walk);
        self.maybe_non_ascii |= walk.high_until(result.1);
        *strings = walk;
        result
    }

    #[inline(always)]
    #[allow(clippy::too_many_lines)] // one loop, so that the state stays in registers
    fn scan_on<const LF_FAILS: bool>(
        &mut self,
        bytes: &[u8],
        mut pos: usize,
        strings: &mut Strings<'_>,
    ) -> (Outcome, usize) {
        let mut expect: Expect;
        let Stack { mut depth, mut word, .. } = self.stack;
        macro_rules! save {
            () => {{
                self.stack.depth = depth;
                self.stack.word = word;
            }};
        }
        macro_rules! stop {
            ($outcome:ident) => {{
                self.state = expect.into();
                save!();
                return (Outcome::$outcome, pos);
            }};
        }
        macro_rules! byte_here {
            () => {
                match bytes.get(pos) {
                    Some(&byte) => byte,
                    None => stop!(More),
                }
            };
        }
        // The commonest byte is asked for before this.
        macro_rules! skip_white_or_fail {
            ($byte:ident) => {{
                if !is_white($byte) || (LF_FAILS && $byte == b'\n') {
                    stop!(Failed);
                }
                pos += 1;
            }};
        }
        // The rest of a token, step by step.
        macro_rules! resume {
            () => {{
                let mut walk = *strings;
                let (outcome, at) = self.resume(bytes, pos, &mut walk);
                *strings = walk;
                pos = at;
                if outcome != Outcome::Whole {
                    save!();
                    return (outcome, pos);
                }
            }};
        }
        macro_rules! string {
            ($is_key:literal) => {{
                pos += 1;
                let end = strings.special(pos);
                if bytes.get(end) == Some(&b'"') {
                    pos = end + 1;
                } else {
                    pos = end;
                    self.begin_string($is_key);
                    resume!();
                }
            }};
        }
        macro_rules! push {
            ($is_object:literal) => {{
                if depth < usize::from(self.shallow) {
                    word = word << 1 | u64::from($is_object);
                    depth += 1;
                } else {
                    save!();
                    if !self.push($is_object) {
                        stop!(Failed);
                    }
                    (depth, word) = (self.stack.depth, self.stack.word);
                }
                pos += 1;
            }};
        }
        macro_rules! pop {
            () => {{
                pos += 1;
                if depth <= usize::from(SHALLOW) {
                    depth -= 1;
                    word >>= 1;
                } else {
                    save!();
                    self.stack.pop();
                    (depth, word) = (self.stack.depth, self.stack.word);
                }
            }};
        }
        // Goes on where a token of an earlier call was cut.
        match self.state.between_tokens() {
            Some(state) => expect = state,
            None => {
                resume!();
                if self.state == State::Colon {
                    expect = Expect::Colon;
                } else {
                    expect = Expect::After;
                    if depth == 0 {
                        stop!(Whole);
                    }
                }
            }
        }
        'next: loop {
            'value: {
                if expect == Expect::After {
                    break 'value;
                }
                if expect == Expect::Key || expect == Expect::ObjectStart {
                    loop {
                        let byte = byte_here!();
                        if byte == b'"' {
                            break;
                        }
                        if byte == b'}' && expect == Expect::ObjectStart {
                            pop!();
                            expect = Expect::After;
                            if depth == 0 {
                                stop!(Whole);
                            }
                            break 'value;
                        }
                        skip_white_or_fail!(byte);
                    }
                    string!(true);
                    expect = Expect::Colon;
                }
                if expect == Expect::Colon {
                    loop {
                        let byte = byte_here!();
                        if byte == b':' {
                            break;
                        }
                        skip_white_or_fail!(byte);
                    }
                    pos += 1;
                    expect = Expect::Value;
                }
                loop {
                    let byte = byte_here!();
                    if byte == b'"' {
                        string!(false);
                        break;
                    }
                    if byte == b'{' {
                        push!(true);
                        expect = Expect::ObjectStart;
                        continue 'next;
                    }
                    if byte.is_ascii_digit() || byte == b'-' {
                        if let Some(end) = short_number(bytes, pos) {
                            pos = end;
                        } else {
                            self.begin_number(byte);
                            pos += 1;
                            resume!();
                        }
                        break;
                    }
                    if byte == b'[' {
                        push!(false);
                        expect = Expect::ArrayStart;
                        continue 'next;
                    }
                    if matches!(byte, b't' | b'f' | b'n') {
                        pos += 1;
                        if let Some(len) = literal_here(byte, &bytes[pos..]) {
                            pos += len;
                        } else {
                            self.begin_literal(byte);
                            resume!();
                        }
                        break;
                    }
                    if byte == b']' && expect == Expect::ArrayStart {
                        pop!();
                        break;
                    }
                    skip_white_or_fail!(byte);
                }
                expect = Expect::After;
                if depth == 0 {
                    stop!(Whole);
                }
            }
            loop {
                let byte = byte_here!();
                let is_object = word & 1 != 0;
                if byte == b',' {
                    pos += 1;
                    expect = if is_object { Expect::Key } else { Expect::Value };
                    break;
                }
                if byte == closer(is_object) {
                    pop!();
                    if depth == 0 {
                        stop!(Whole);
                    }
                } else {
                    skip_white_or_fail!(byte);
                }
            }
        }
    }

    /// Takes a byte that leaves the text open; false, and nothing is done, if it may not.
    #[inline(always)]
    pub fn stays_inside(&mut self, byte: u8, lf_fails: bool) -> bool {
        if let State::Number(part) = self.state {
            if let Some(part) = part.step(byte) {
                self.add_to_number(part);
                return true;
            }
            if !part.may_end() || self.stack.depth == 0 {
                return false;
            }
        }
        match self.state {
            State::String => match byte {
                b'"' if self.is_key || self.stack.depth > 0 => self.end_string(),
                b'\\' => self.state = State::Escape,
                b'"' | ..=0x1f => return false,
                _ => {
                    self.lone_surrogate |= self.high_surrogate;
                    self.high_surrogate = false;
                    self.maybe_non_ascii |= !byte.is_ascii();
                }
            },
            State::Escape | State::Hex => return false,
            State::Literal => match self.literal_rest() {
                [expected] if *expected == byte && self.stack.depth > 0 => {
                    self.state = State::After;
                }
                [expected, _, ..] if *expected == byte => self.literal_read += 1,
                _ => return false,
            },
            _ if is_white(byte) => {
                if byte == b'\n' && lf_fails {
                    return false;
                }
                self.end_number();
            }
            State::Colon => {
                if byte != b':' {
                    return false;
                }
                self.state = State::Value;
            }
            State::Key | State::ObjectStart => {
                if byte != b'"' {
                    return false;
                }
                self.begin_string(true);
            }
            State::Value | State::ArrayStart => match byte {
                b'"' => self.begin_string(false),
                b'-' | b'0'..=b'9' => self.begin_number(byte),
                b't' | b'f' | b'n' => self.begin_literal(byte),
                b'{' if self.push(true) => self.state = State::ObjectStart,
                b'[' if self.push(false) => self.state = State::ArrayStart,
                _ => return false,
            },
            State::After | State::Number(_) => {
                if byte == b',' {
                    self.end_number();
                    self.state = if self.stack.is_object() { State::Key } else { State::Value };
                } else if byte == self.stack.closer() && self.stack.depth > 1 {
                    self.end_number();
                    self.stack.pop();
                } else {
                    return false;
                }
            }
        }
        true
    }

    #[inline(always)]
    fn end_string(&mut self) {
        self.lone_surrogate |= self.high_surrogate;
        self.high_surrogate = false;
        self.state = if self.is_key { State::Colon } else { State::After };
    }

    fn begin_literal(&mut self, byte: u8) {
        self.state = State::Literal;
        self.literal = byte;
        self.literal_read = 0;
    }

    fn literal_rest(&self) -> &'static [u8] {
        &rest_of_literal(self.literal)[usize::from(self.literal_read)..]
    }

    #[inline(always)]
    fn add_to_number(&mut self, part: Number) {
        self.state = State::Number(part);
        self.number_len = self.number_len.saturating_add(1);
        self.exponent_digits =
            self.exponent_digits.saturating_add(u8::from(part == Number::Exponent));
    }

    /// What follows the number, if there is one.
    #[inline(always)]
    fn end_number(&mut self) {
        if let State::Number(_) = self.state {
            self.maybe_too_large |= self.number_len > HARMLESS_NUMBER || self.exponent_digits > 2;
            self.state = State::After;
        }
    }

    fn begin_string(&mut self, is_key: bool) {
        self.is_key = is_key;
        self.state = State::String;
        self.high_surrogate = false;
    }

    fn begin_number(&mut self, byte: u8) {
        self.state = State::Number(match byte {
            b'-' => Number::Minus,
            b'0' => Number::Zero,
            _ => Number::Integer,
        });
        self.number_len = 1;
        self.exponent_digits = 0;
    }

    /// Reads the rest of a token; `Whole` is the token's end, and `state` what follows it.
    #[inline(never)]
    fn resume(
        &mut self,
        bytes: &[u8],
        mut pos: usize,
        strings: &mut Strings<'_>,
    ) -> (Outcome, usize) {
        match self.state {
            State::Number(part) => return self.resume_number(bytes, pos, part),
            State::Literal => return self.resume_literal(bytes, pos),
            _ => {}
        }
        loop {
            match self.state {
                State::Escape => {
                    let Some(&byte) = bytes.get(pos) else {
                        return (Outcome::More, pos);
                    };
                    match byte {
                        b'u' => {
                            self.hex_digits = 0;
                            self.code_unit = 0;
                            self.state = State::Hex;
                        }
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                            self.lone_surrogate |= self.high_surrogate;
                            self.high_surrogate = false;
                            self.state = State::String;
                        }
                        _ => return (Outcome::Failed, pos),
                    }
                    pos += 1;
                }
                State::Hex => {
                    let Some(&byte) = bytes.get(pos) else {
                        return (Outcome::More, pos);
                    };
                    let digit = match byte {
                        b'0'..=b'9' => byte - b'0',
                        b'a'..=b'f' => byte - b'a' + 10,
                        b'A'..=b'F' => byte - b'A' + 10,
                        _ => return (Outcome::Failed, pos),
                    };
                    pos += 1;
                    self.code_unit = self.code_unit << 4 | u16::from(digit);
                    self.hex_digits += 1;
                    if self.hex_digits == 4 {
                        let is_low = (0xdc00..0xe000).contains(&self.code_unit);
                        self.lone_surrogate |= self.high_surrogate != is_low;
                        self.high_surrogate = (0xd800..0xdc00).contains(&self.code_unit);
                        self.state = State::String;
                    }
                }
                _ => {
                    let begin = pos;
                    pos = strings.special(begin);
                    let Some(&byte) = bytes.get(pos) else {
                        if pos > begin {
                            self.lone_surrogate |= self.high_surrogate;
                            self.high_surrogate = false;
                        }
                        return (Outcome::More, pos);
                    };
                    if pos > begin || byte != b'\\' {
                        self.lone_surrogate |= self.high_surrogate;
                        self.high_surrogate = false;
                    }
                    match byte {
                        b'"' => {
                            pos += 1;
                            self.end_string();
                            return (Outcome::Whole, pos);
                        }
                        b'\\' => {
                            pos += 1;
                            self.state = State::Escape;
                        }
                        _ => return (Outcome::Failed, pos),
                    }
                }
            }
        }
    }

    fn resume_literal(&mut self, bytes: &[u8], mut pos: usize) -> (Outcome, usize) {
        while let [expected, ..] = self.literal_rest() {
            match bytes.get(pos) {
                None => return (Outcome::More, pos),
                Some(byte) if byte == expected => pos += 1,
                Some(_) => return (Outcome::Failed, pos),
            }
            self.literal_read += 1;
        }
        self.state = State::After;
        (Outcome::Whole, pos)
    }

    fn resume_number(
        &mut self,
        bytes: &[u8],
        mut pos: usize,
        mut part: Number,
    ) -> (Outcome, usize) {
        loop {
            let Some(&byte) = bytes.get(pos) else {
                return (Outcome::More, pos);
            };
            let Some(next) = part.step(byte) else {
                if !part.may_end() {
                    return (Outcome::Failed, pos);
                }
                self.end_number();
                return (Outcome::Whole, pos);
            };
            part = next;
            self.add_to_number(part);
            pos += 1;
        }
    }
}

#[inline(always)]
const fn rest_of_literal(byte: u8) -> &'static [u8] {
    match byte {
        b't' => b"rue",
        b'f' => b"alse",
        _ => b"ull",
    }
}

/// The length of the rest of the literal that begins with `byte`, if `bytes` begins with it.
#[inline(always)]
fn literal_here(byte: u8, bytes: &[u8]) -> Option<usize> {
    let rest: [u8; 3] = *bytes.first_chunk()?;
    match byte {
        b't' => (rest == *b"rue").then_some(3),
        b'n' => (rest == *b"ull").then_some(3),
        _ => (rest == *b"als" && bytes.get(3) == Some(&b'e')).then_some(4),
    }
}

/// The byte that closes a container.
#[inline(always)]
const fn closer(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

/// The end of the number at `pos`, if it has no exponent, is not long, and its end is certain.
#[inline(always)]
fn short_number(bytes: &[u8], pos: usize) -> Option<usize> {
    let mut end = pos + usize::from(bytes[pos] == b'-');
    match bytes.get(end)? {
        b'0' => end += 1,
        b'1'..=b'9' => {
            end += 1;
            while bytes.get(end)?.is_ascii_digit() {
                end += 1;
            }
        }
        _ => return None,
    }
    if *bytes.get(end)? == b'.' {
        end += 1;
        if !bytes.get(end)?.is_ascii_digit() {
            return None;
        }
        while bytes.get(end)?.is_ascii_digit() {
            end += 1;
        }
    }
    let byte = *bytes.get(end)?;
    (byte | 0x20 != b'e' && end - pos <= usize::from(HARMLESS_NUMBER)).then_some(end)
}

/// Whether no number of a text by the grammar is infinite as a double.
#[cold]
fn numbers_are_finite(text: &[u8]) -> bool {
    let mut pos = 0;
    while let Some(&byte) = text.get(pos) {
        match byte {
            b'"' => {
                pos += 1;
                while let Some(&byte) = text.get(pos)
                    && byte != b'"'
                {
                    pos += if byte == b'\\' { 2 } else { 1 };
                }
                pos += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &text[pos..];
                let is_number = |byte: &u8| {
                    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E') || byte.is_ascii_digit()
                };
                let len = rest.iter().position(|byte| !is_number(byte)).unwrap_or(rest.len());
                let number = str::from_utf8(&rest[..len]).ok().and_then(|text| text.parse().ok());
                if !number.is_some_and(f64::is_finite) {
                    return false;
                }
                pos += len;
            }
            _ => pos += 1,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &[u8]) -> (Outcome, usize, bool) {
        let mut grammar = Grammar::new(1024, 8 << 20);
        let (outcome, pos) = grammar.scan::<false>(text, 0, &mut Strings::new(text));
        (outcome, pos, grammar.is_valid(text))
    }

    #[test]
    fn stack_keeps_the_type_of_every_level() {
        let mut stack = Stack::default();
        let is_object = |level: usize| level.is_multiple_of(3) || level.is_multiple_of(7);
        for level in 0..1000 {
            assert_eq!(stack.depth(), level);
            stack.push(is_object(level));
        }
        for level in (0..1000).rev() {
            assert_eq!(stack.is_object(), is_object(level));
            stack.pop();
        }
        assert_eq!(stack.depth(), 0);
    }

    #[test]
    fn failing_byte_is_the_first_that_no_text_could_have() {
        for (text, at) in [
            (&b"{\"a\":tru}"[..], 8),
            (b"[1,]", 3),
            (b"{\"a\":1,}", 7),
            (b"[01]", 2),
            (b"[1.]", 3),
            (b"[-]", 2),
            (b"[1e+]", 4),
            (b"\"\\x\"", 2),
            (b"\"\\u12g4\"", 5),
            (b"\"\t\"", 1),
            (b"{1:2}", 1),
            (b"{\"a\" 1}", 5),
            (b"[1}", 2),
            (b"[\x0b1]", 1),
        ] {
            assert_eq!(judge(text).0, Outcome::Failed, "{text:?}");
            assert_eq!(judge(text).1, at, "{text:?}");
            for cut in 0..at {
                let mut grammar = Grammar::new(1024, 8 << 20);
                let (first, second) = text.split_at(cut);
                assert_eq!(
                    grammar.scan::<false>(first, 0, &mut Strings::new(first)),
                    (Outcome::More, cut)
                );
                assert_eq!(
                    grammar.scan::<false>(second, 0, &mut Strings::new(second)),
                    (Outcome::Failed, at - cut),
                );
            }
        }
    }

    #[test]
    fn whole_texts_may_be_refused() {
        for (text, is_valid) in [
            (&b"[1.7976931348623157e308]"[..], true),
            (b"[1.7976931348623158e308]", true),
            (b"[1.7976931348623159e308]", false),
            (b"[1e309]", false),
            (b"[-1e400]", false),
            (b"[1e-400]", true),
            (b"[0e400]", true),
            (b"{\"1e400\":1e00000000005}", true),
            (b"\"\\ud83d\\ude80\"", true),
            (b"\"\\ud83d\"", false),
            (b"\"\\ud83dx\\ude80\"", false),
            (b"\"\\ud83d\\n\"", false),
            (b"\"\\ude80\"", false),
            (b"\"\\ud83d\\ud83d\\ude80\"", false),
            (b"\"\xc3\xa9\"", true),
            (b"\"\xc3\"", false),
            (b"\"\xed\xa0\x80\"", false),
        ] {
            assert_eq!(judge(text), (Outcome::Whole, text.len(), is_valid), "{text:?}");
        }
        let digits = |count: usize| format!("[{}]", "9".repeat(count)).into_bytes();
        assert!(judge(&digits(308)).2);
        assert!(!judge(&digits(309)).2);
        assert!(!judge(&digits(5000)).2);
        let nested = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(judge(&nested(1024)).2);
        assert_eq!(judge(&nested(1025)), (Outcome::Whole, 2050, false));
    }
}
