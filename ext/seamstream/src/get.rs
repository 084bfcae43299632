//! One value out of a JSON text, found without building the rest, all of it checked.
//!
//! Use it where a stream of JSON texts is read for one value of each: [`find`] costs a fraction
//! of a parse, and a [`Memo`], kept from text to text, leaves little more than the value itself
//! to look at. [`Many`] finds several values in one pass. Where most of a text is wanted, parse it.
//!
//! # What is checked
//!
//! Everything, always: the grammar of RFC 8259, well-formed UTF-8, no lone surrogates, no number
//! that is infinite as a double, no more than 1024 containers open. Of members with equal names
//! the last is the one that counts, on every level. Names are compared after their escapes are
//! decoded. There is no recursion.
//!
//! # Why remembering is exact
//!
//! The checker is a deterministic machine that reads bytes from left to right. Between two tokens
//! its whole state is: which containers are open, what may come next, and how much of the path
//! the open containers have matched. Where the wanted value begins and where it ends it stands
//! between tokens, and the path is matched in full, so what is open are exactly the containers on
//! the path: their types (`Memo::levels`) are all of the state that can vary.
//!
//! * *Prefix*: equal bytes before the value leave the machine in the same state, and they end
//!   with a structural byte or white space, so no token and no character reaches over the end.
//!   The one thing forgotten is whether the value is the first of its array, where `]` may come
//!   instead. Therefore nothing that fails after a remembered prefix counts: the text is then
//!   read from its beginning, without the memo.
//! * *Value*: it is always scanned, with the depth that it really has. A number ends at the first
//!   byte that cannot continue it, and a tail, having followed a value once, begins with no such
//!   byte.
//! * *Tail*: from the same state equal bytes have the same outcome. It was "a whole text, and the
//!   value before this is still the one that counts", or the tail would not have been remembered:
//!   a later member of the same name in it would have replaced the value.
//! * *UTF-8*: prefix, value and tail begin and end with ASCII, so the text is well-formed if each
//!   of them is; the remembered two were.
//!
//! * *Gaps*: a scalar that is not wanted says nothing but that there was a value: any scalar leads
//!   from the same state to the same state, and white space between two tokens to no other. So
//!   where only these differ from what is remembered they are scanned, and the bytes between them
//!   compared. (What follows a scalar begins with no byte that could continue a number, as above.)
//!   Nor does a failure here count.
//!
//! The same holds for several values: any scalar may be in the place of a scalar, wanted or not.
//! So it does not matter which texts are remembered, nor when a memo gives up (see `PATIENCE`).

use crate::scan_json::Strings;
use std::ops::Range;

/// As many containers may be open.
const MAX_DEPTH: usize = 1024;

/// Levels that fit in one word.
const WORD: usize = 64;

/// So many names and scalars of a text are known by their places.
const MAX_TOKENS: usize = 48;

/// What a [`Memo`] or [`Many`] holds of a text; with the tokens it is no more than 4 KiB.
const MAX_REMEMBERED: usize = 4096 - MAX_TOKENS * size_of::<Token>();

/// After some texts that are not equal to what is remembered, it is replaced by every so manieth.
const PATIENCE: u8 = 32;

/// So many texts in a row that are equal to it pay for replacing it.
const STREAK: u8 = 8;

/// A number of so many bytes without an exponent is finite.
const HARMLESS_NUMBER: usize = 300;

/// No index, or one that no array has.
const NEVER: usize = usize::MAX;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// The member of an object with this name.
    Key(Box<str>),
    /// The element of an array, from 0.
    Index(usize),
    /// The member in an object, the element in an array.
    Either(Box<str>, usize),
}

impl Segment {
    #[inline(always)]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Segment::Key(key) | Segment::Either(key, _) => Some(key.as_bytes()),
            Segment::Index(_) => None,
        }
    }

    #[inline(always)]
    fn index(&self) -> usize {
        match *self {
            Segment::Key(_) => NEVER,
            Segment::Index(index) | Segment::Either(_, index) => index,
        }
    }
}

/// Where the wanted value is. The empty path is the whole text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    segments: Box<[Segment]>,
}

impl FromIterator<Segment> for Path {
    fn from_iter<T: IntoIterator<Item = Segment>>(segments: T) -> Self {
        Path { segments: segments.into_iter().collect() }
    }
}

/// The wanted value, as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// What is between the quotes of a string that is all ASCII and has no escapes.
    Ascii(&'a [u8]),
    /// What is between the quotes of a string without escapes; well-formed UTF-8.
    Text(&'a [u8]),
    /// A valid JSON text without white space around it.
    Json(&'a [u8]),
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The first ill-formed byte, if the text is not UTF-8. Else the length of a text that is cut
    /// short, or the byte where what is wrong begins: the literal, the number out of range, the
    /// leading zero, the escape, the comma before a closing bracket, the byte after the bracket
    /// that is one too many, any other byte that is in the wrong place.
    pub offset: usize,
}

/// Finds the value at `path`; `None` when the text is valid and has none there.
///
/// Time is linear in the text.
///
/// # Errors
/// [`Malformed`]: see [there](self#what-is-checked) what is checked.
///
/// # Examples
/// ```
/// use seamstream::get::{Found, Path, Segment, find};
///
/// let path: Path = [Segment::Key("choices".into()), Segment::Index(0)].into_iter().collect();
/// let text = br#"{"choices": ["a", "b"], "created": 1}"#;
/// assert_eq!(find(text, &path), Ok(Some(Found::Ascii(b"a"))));
/// assert_eq!(find(b"{}", &path), Ok(None));
/// assert_eq!(find(&text[..36], &path).unwrap_err().offset, 36);
/// ```
pub fn find<'a>(text: &'a [u8], path: &Path) -> Result<Option<Found<'a>>, Malformed> {
    Ok(check(text, path, Start::default(), None, false)?.found(text))
}

/// A path, and what stood around its value in a text that had one.
///
/// It gives the answers that [`find`] gives, sooner: a text that begins and ends like that one
/// costs two comparisons and a look at the value, one in which other scalars differ a look at
/// these as well. A text that is malformed is read three times at most, one that is to be
/// remembered once more.
#[derive(Debug, Default)]
pub struct Memo {
    path: Path,
    known: Known,
    /// The types of the containers around the value, the innermost lowest, set for an object.
    levels: u64,
}

impl Memo {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new(path: Path) -> Self {
        Memo { path, ..Self::default() }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the value at the path; `None` when the text is valid and has none there.
    ///
    /// `is_utf8`: the text has been found to be well-formed UTF-8.
    ///
    /// # Errors
    /// [`Malformed`], as of [`find`].
    #[inline]
    pub fn find<'a>(
        &mut self,
        text: &'a [u8],
        is_utf8: bool,
    ) -> Result<Option<Found<'a>>, Malformed> {
        match self.find_short(text) {
            Some(content) => Ok(Some(Found::Ascii(content))),
            None => self.find_long(text, is_utf8),
        }
    }

    /// The content of the value if it is a short string of ASCII without escapes, and all else as
    /// remembered.
    #[inline(always)]
    pub fn find_short<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let string = self.known.short_value(text)?;
        Some(&text[string.start + 1..string.end - 1])
    }

    /// As [`find`](Self::find), where [`find_short`](Self::find_short) has found nothing.
    ///
    /// # Errors
    /// [`Malformed`], as of [`find`].
    #[inline(never)]
    pub fn find_long<'a>(
        &mut self,
        text: &'a [u8],
        is_utf8: bool,
    ) -> Result<Option<Found<'a>>, Malformed> {
        let (checked, is_equal) = match self.fit(text, is_utf8) {
            Some(fitted) => fitted,
            None => (check(text, &self.path, Start::default(), None, is_utf8)?, false),
        };
        if checked.is_found() && self.known.is_to_be_replaced(is_equal) {
            let replaces = self.path.segments.len() <= WORD;
            if replaces && self.known.replace(text, checked.span.clone()) {
                self.levels = checked.levels;
            }
        }
        Ok(checked.found(text))
    }

    /// Reads a text with the help of what is known, and tells whether it is equal to that.
    #[inline(always)]
    fn fit(&self, text: &[u8], is_utf8: bool) -> Option<(Checked, bool)> {
        let mut fitting = Fitting::new(text);
        self.known.fit_prefix(&mut fitting, |_, _| ())?;
        let begin = fitting.pos;
        let from_value = |tail, fitting: &Fitting| {
            if fitting.has_high && !is_utf8 && !is_well_formed(&text[..begin]) {
                return None;
            }
            let start = Start { pos: begin, depth: self.path.segments.len(), levels: self.levels };
            check(text, &self.path, start, tail, is_utf8).ok()
        };
        let Some(value) = scalar(text, begin) else {
            // A container, or malformed.
            let tail = self.known.tail().map(|tail| (tail, self.levels));
            let checked = from_value(tail, &fitting)?;
            let is_equal = fitting.is_equal && checked.by_tail;
            return Some((checked, is_equal));
        };
        fitting.pos = value.end;
        if self.known.fit_tail(&mut fitting, |_, _| ()).is_none() {
            return Some((from_value(None, &fitting)?, false));
        }
        let has_high = value.has_high || fitting.has_high;
        if has_high && !is_utf8 && !is_well_formed(text) {
            return None;
        }
        let checked = Checked {
            span: begin..value.end,
            levels: self.levels,
            is_plain: value.is_plain,
            by_tail: true,
            has_high,
        };
        Some((checked, fitting.is_equal))
    }
}

/// What is remembered of a text: what stood around one value, and where the other tokens were.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The prefix and then, if there is one, the tail.
    bytes: Vec<u8>,
    prefix_len: usize,
    has_prefix: bool,
    has_tail: bool,
    /// The names and scalars in `bytes`, in order: all, or the first ones.
    tokens: Vec<Token>,
    tokens_in_prefix: usize,
    /// As far as they are all there.
    tokens_until: usize,
    /// How many texts in a row were equal to this.
    fits: u8,
    /// How many were not, with too few between them to pay for a replacement.
    misfits: u8,
}

/// A name or a scalar, quotes included.
#[derive(Clone, Copy, Debug)]
struct Token {
    start: u32,
    end: u32,
    is_name: bool,
}

impl Known {
    /// Where the value is, if it is a short string of ASCII without escapes, and all else equal.
    #[inline(always)]
    fn short_value(&mut self, text: &[u8]) -> Option<Range<usize>> {
        if !self.has_tail {
            return None;
        }
        let (prefix, tail) = self.bytes.split_at(self.prefix_len);
        if !text.starts_with(prefix) {
            return None;
        }
        let end = short_string(text, prefix.len())?;
        if text[end..] != *tail {
            return None;
        }
        self.fits = self.fits.saturating_add(1);
        Some(prefix.len()..end)
    }

    fn tail(&self) -> Option<&[u8]> {
        if self.has_tail { self.bytes.get(self.prefix_len..) } else { None }
    }

    /// Reads up to the value.
    #[inline(always)]
    fn fit_prefix(
        &self,
        fitting: &mut Fitting<'_>,
        moved: impl FnMut(usize, &Moved),
    ) -> Option<()> {
        let tokens = self.tokens.get(..self.tokens_in_prefix)?;
        let range = self.has_prefix.then_some(0..self.prefix_len)?;
        fitting.read(&self.bytes, range, tokens, self.tokens_until, moved)
    }

    /// Reads from after the value to the end.
    #[inline(always)]
    fn fit_tail(&self, fitting: &mut Fitting<'_>, moved: impl FnMut(usize, &Moved)) -> Option<()> {
        let tokens = self.tokens.get(self.tokens_in_prefix..)?;
        let range = self.has_tail.then_some(self.prefix_len..self.bytes.len())?;
        fitting.read(&self.bytes, range, tokens, self.tokens_until, moved)?;
        (fitting.pos == fitting.text.len()).then_some(())
    }

    /// To be asked for each text with a value that [`short_value`](Self::short_value) has none of.
    #[inline(always)]
    fn is_to_be_replaced(&mut self, is_equal: bool) -> bool {
        if is_equal {
            self.fits = self.fits.saturating_add(1);
            return false;
        }
        let has_paid = std::mem::take(&mut self.fits) >= STREAK;
        self.misfits = if has_paid { 1 } else { self.misfits.wrapping_add(1) };
        self.misfits < 3 || self.misfits.is_multiple_of(PATIENCE)
    }

    /// Remembers this text but for `value`, if it is not too long. Reads it once more.
    #[cold]
    fn replace(&mut self, text: &[u8], value: Range<usize>) -> bool {
        let (prefix, tail) = (&text[..value.start], &text[value.end..]);
        if prefix.len() > MAX_REMEMBERED {
            return false;
        }
        self.has_prefix = true;
        self.has_tail = prefix.len() + tail.len() <= MAX_REMEMBERED;
        let tail = if self.has_tail { tail } else { &[] };
        self.bytes.clear();
        // Exactly, so that no more is ever held than the most that is remembered.
        self.bytes.reserve_exact(prefix.len() + tail.len());
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(tail);
        self.prefix_len = prefix.len();
        self.tokens.clear();
        let end = prefix.len() + tail.len() + value.len();
        let tokens = TokensOf { known: self, value, end, is_full: false };
        let is_full = walk(text, Start::default(), tokens).unwrap_or(true);
        let last = self.tokens.last().map_or(0, |token| token.end as usize);
        self.tokens_until = if is_full { last } else { self.bytes.len() };
        let in_prefix = |token: &Token| token.end as usize <= self.prefix_len;
        self.tokens_in_prefix = self.tokens.partition_point(in_prefix);
        true
    }
}

/// Writes down where the tokens of a text are, but for those of one value.
struct TokensOf<'a> {
    known: &'a mut Known,
    value: Range<usize>,
    /// The end of what is of interest.
    end: usize,
    is_full: bool,
}

impl TokensOf<'_> {
    /// Gives true when no more are to come.
    fn push(&mut self, start: usize, end: usize, is_name: bool) -> bool {
        let cut = if start < self.value.start {
            0
        } else if start < self.value.end {
            return false;
        } else {
            self.value.len()
        };
        self.is_full |= self.known.tokens.len() == MAX_TOKENS || end > self.end;
        if !self.is_full
            && let (Ok(start), Ok(end)) = ((start - cut).try_into(), (end - cut).try_into())
        {
            self.known.tokens.push(Token { start, end, is_name });
        }
        self.is_full
    }
}

impl Targets for TokensOf<'_> {
    /// Whether there were more.
    type Result = bool;

    fn key(&mut self, _: &[u8], begin: usize, end: usize, _: bool, _: usize) {
        self.push(begin - 1, end + 1, true);
    }

    fn element(&mut self, _: usize) {}

    fn open(&mut self, _: usize, _: usize) {}

    fn close(&mut self, _: &[u8], _: usize, _: usize, _: u64) -> bool {
        false
    }

    fn scalar(&mut self, _: &[u8], begin: usize, end: usize, _: bool, _: u64) -> bool {
        self.push(begin, end, false)
    }

    fn finish(self, _: bool) -> bool {
        self.is_full
    }
}

/// Reads a text beside one that is known.
struct Fitting<'a> {
    text: &'a [u8],
    pos: usize,
    /// Whether all was equal.
    is_equal: bool,
    /// Whether what was not may have bytes outside ASCII.
    has_high: bool,
}

/// What was read beside a part of the known text that it was not equal to.
enum Moved {
    Scalar(Scalar),
    /// White space, which ends at this position.
    White(usize),
}

impl<'a> Fitting<'a> {
    fn new(text: &'a [u8]) -> Self {
        Fitting { text, pos: 0, is_equal: true, has_high: false }
    }

    /// Reads on beside a `range` of known bytes, of which the tokens not read yet are `tokens`,
    /// all that there are up to `until`; calls `moved` with the known end of what was not equal.
    #[inline(always)]
    fn read(
        &mut self,
        bytes: &[u8],
        range: Range<usize>,
        mut tokens: &[Token],
        until: usize,
        mut moved: impl FnMut(usize, &Moved),
    ) -> Option<()> {
        let bytes = bytes.get(..range.end)?;
        let mut at = range.start;
        loop {
            let equal = common_prefix(self.text.get(self.pos..)?, bytes.get(at..)?);
            self.pos += equal;
            at += equal;
            if at == bytes.len() {
                return Some(());
            }
            self.is_equal = false;
            while let [token, rest @ ..] = tokens
                && (token.end as usize) < at
            {
                tokens = rest;
            }
            let token = tokens.first().map(|token| (token.start as usize, token.end as usize));
            if !token.map_or(at > until, |(start, end)| start < at && at < end) {
                let (pos, known) = (skip_white(self.text, self.pos), skip_white(bytes, at));
                if (pos, known) != (self.pos, at) {
                    (self.pos, at) = (pos, known);
                    moved(at, &Moved::White(pos));
                    continue;
                }
            }
            let (start, end) = token.filter(|(start, _)| *start <= at)?;
            let [Token { is_name: false, .. }, rest @ ..] = tokens else { return None };
            tokens = rest;
            // What there is of it so far is equal.
            let scalar = scalar(self.text, self.pos.checked_sub(at - start)?)?;
            self.pos = scalar.end;
            self.has_high |= scalar.has_high;
            at = end;
            moved(at, &Moved::Scalar(scalar));
        }
    }
}

/// Something that is no container.
struct Scalar {
    end: usize,
    /// Whether it is a string without escapes.
    is_plain: bool,
    /// Whether it may have bytes outside ASCII.
    has_high: bool,
}

/// The scalar at `begin`, if there is a valid one.
#[inline(always)]
fn scalar(text: &[u8], begin: usize) -> Option<Scalar> {
    let end = match text.get(begin)? {
        b'"' => {
            return match short_string(text, begin) {
                Some(end) => Some(Scalar { end, is_plain: true, has_high: false }),
                None => string(text, begin),
            };
        }
        b'-' | b'0'..=b'9' => number(text, begin),
        b'n' => literal(text, begin, b"null"),
        b't' => literal(text, begin, b"true"),
        b'f' => literal(text, begin, b"false"),
        _ => return None,
    };
    Some(Scalar { end: end.ok()?, is_plain: false, has_high: false })
}

/// A string from its opening quote on.
#[inline(never)]
fn string(text: &[u8], begin: usize) -> Option<Scalar> {
    let mut strings = Strings::new(text);
    let special = strings.special(begin + 1);
    let is_plain = text.get(special) == Some(&b'"');
    let end =
        if is_plain { special + 1 } else { escaped_string(text, &mut strings, special).ok()? };
    Some(Scalar { end, is_plain, has_high: strings.high_until(end) })
}

/// The end of a string of ASCII without escapes, if it is short.
///
/// For what most streams have, words, it takes less than a block of [`Strings`].
#[inline(always)]
fn short_string(text: &[u8], begin: usize) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if text.get(begin) != Some(&b'"') {
        return None;
    }
    let mut pos = begin + 1;
    for _ in 0..3 {
        let rest = text.get(pos..)?;
        let word = if let Some(word) = rest.first_chunk() {
            u64::from_le_bytes(*word)
        } else {
            // The last eight bytes, with those before `pos` shifted out and zeros, which are
            // control characters, shifted in. The text does not end in a string.
            let word = u64::from_le_bytes(*text.last_chunk()?);
            word.checked_shr(u32::try_from(8 - rest.len()).ok()? * 8)?
        };
        // The lowest top bit set is at the first byte that is zero: a borrow goes upwards only.
        let zero = |v: u64| v.wrapping_sub(LOW) & !v & HIGH;
        let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let special = zero(word ^ (LOW * 0x22)) | zero(word ^ (LOW * 0x5c)) | control | word & HIGH;
        if special != 0 {
            pos += (special.trailing_zeros() / 8) as usize;
            return (text.get(pos) == Some(&b'"')).then_some(pos + 1);
        }
        pos += 8;
    }
    None
}

/// Several paths, whose values are found in one pass over a text.
///
/// As a [`Memo`] it remembers a text, but for the first value that is a string without escapes. A
/// text with another short word there, and nothing else that differs, costs two comparisons; one
/// in which only scalars differ, wanted or not, is compared with that text and not walked through.
/// The values are then where they were, moved by what is longer or shorter before them.
#[derive(Clone, Debug, Default)]
pub struct Many {
    groups: Box<[Group]>,
    len: usize,
    // Kept for their memory only: every pass begins with both empty.
    levels: Vec<Level>,
    spans: Vec<Span>,
    known: Known,
    /// Where the scalar was that `known` leaves out: a string without escapes if there is one.
    cut: Range<usize>,
    /// All values of that text.
    values: Vec<Span>,
    /// Whether it had bytes outside ASCII.
    has_high: bool,
    // For its memory only.
    moves: Vec<Move>,
}

/// From a position of the known text on, the new one has what is equal at another.
#[derive(Clone, Copy, Debug)]
struct Move {
    known: usize,
    new: usize,
    /// Of a scalar that ends there, whether it is a string without escapes; else white space does.
    is_plain: Option<bool>,
}

impl FromIterator<Path> for Many {
    fn from_iter<T: IntoIterator<Item = Path>>(paths: T) -> Self {
        let paths: Vec<Path> = paths.into_iter().collect();
        let groups = match &*paths {
            [] => Box::new([Group::new(&[])]) as Box<[Group]>,
            paths => paths.chunks(WORD).map(Group::new).collect(),
        };
        Many { groups, len: paths.len(), ..Self::default() }
    }
}

impl Many {
    /// How many paths.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // it is no collection
    pub fn len(&self) -> usize {
        self.len
    }

    /// Finds for each path what [`find`] does.
    ///
    /// `is_utf8`: the text has been found to be well-formed UTF-8. Up to 64 paths are one pass.
    ///
    /// # Errors
    /// [`Malformed`], as of [`find`], also when there are no paths.
    ///
    /// # Panics
    /// If `found` has not as many places as there are paths.
    ///
    /// # Examples
    /// ```
    /// use seamstream::get::{Found, Many, Path, Segment};
    ///
    /// let path = |name: &str| -> Path { [Segment::Key(name.into())].into_iter().collect() };
    /// let mut many: Many = ["a", "b", "c"].map(path).into_iter().collect();
    /// let mut found = [None; 3];
    /// many.find(br#"{"c": 1, "a": "x"}"#, false, &mut found)?;
    /// assert_eq!(found, [Some(Found::Ascii(b"x")), None, Some(Found::Json(b"1"))]);
    /// # Ok::<(), seamstream::get::Malformed>(())
    /// ```
    pub fn find<'a>(
        &mut self,
        text: &'a [u8],
        is_utf8: bool,
        found: &mut [Option<Found<'a>>],
    ) -> Result<(), Malformed> {
        assert_eq!(found.len(), self.len, "a place for each path");
        if let Some(string) = self.known.short_value(text) {
            let was = self.cut.end;
            let moved = |at: usize| if at < was { at } else { at - was + string.end };
            for (place, span) in found.iter_mut().zip(&self.values) {
                let value = span.is_there().then(|| &text[moved(span.begin)..moved(span.end)]);
                *place = value.map(|value| as_found(value, span.is_plain, self.has_high));
            }
            return Ok(());
        }
        let fitted = self.fit(text, is_utf8, found);
        let is_to_be_replaced = self.known.is_to_be_replaced(fitted == Some(true));
        if fitted.is_some() && !is_to_be_replaced {
            return Ok(());
        }
        let mut has_high = false;
        for (at, group) in self.groups.iter().enumerate() {
            self.levels.clear();
            self.spans.clear();
            self.spans.resize(group.len, Span { begin: NEVER, end: NEVER, is_plain: false });
            let (levels, spans) = (&mut self.levels, &mut *self.spans);
            has_high = walk(text, Start::default(), Several::new(group, levels, spans))
                .map_err(|offset| malformed(text, offset))?;
            if has_high && !is_utf8 && !is_well_formed(text) {
                return Err(malformed(text, 0));
            }
            for (place, span) in found[at * WORD..].iter_mut().zip(&self.spans) {
                let value = text.get(span.begin..span.end);
                *place = value.map(|value| as_found(value, span.is_plain, has_high));
            }
        }
        if is_to_be_replaced && self.groups.len() == 1 {
            self.remember(text, has_high);
        }
        Ok(())
    }

    /// Finds the values of a text that is as the known one but for scalars; tells whether only
    /// the one that is left out differs.
    #[inline(always)]
    fn fit<'a>(
        &mut self,
        text: &'a [u8],
        is_utf8: bool,
        found: &mut [Option<Found<'a>>],
    ) -> Option<bool> {
        let Many { known, moves, .. } = self;
        moves.clear();
        let mut keep = |at, moved: &Moved| {
            if moves.len() < MAX_TOKENS {
                moves.push(Move::new(at, moved));
            }
        };
        let mut fitting = Fitting::new(text);
        known.fit_prefix(&mut fitting, &mut keep)?;
        let value = scalar(text, fitting.pos)?;
        fitting.pos = value.end;
        fitting.has_high |= value.has_high;
        keep(self.cut.end, &Moved::Scalar(value));
        let left_out = self.cut.len();
        known.fit_tail(&mut fitting, |at, moved| keep(at + left_out, moved))?;
        if moves.len() == MAX_TOKENS {
            return None; // white space may differ in any number of places
        }
        let has_high = self.has_high || fitting.has_high;
        if has_high && !is_utf8 && !is_well_formed(text) {
            return None;
        }
        for (place, span) in found.iter_mut().zip(&self.values) {
            *place = if span.is_there() {
                let span = span.moved(&self.moves);
                Some(as_found(text.get(span.begin..span.end)?, span.is_plain, has_high))
            } else {
                None
            };
        }
        Some(fitting.is_equal)
    }

    /// Remembers nothing any more.
    pub fn forget(&mut self) {
        self.known = Known::default();
        self.values.clear();
    }

    /// Replaces what is remembered, if the last pass has found a scalar.
    #[cold]
    fn remember(&mut self, text: &[u8], has_high: bool) {
        let there = || self.spans.iter().filter(|span| span.is_there());
        let string = there().find(|span| span.is_plain);
        let scalar = || there().find(|span| !matches!(text[span.begin], b'{' | b'['));
        let Some(&Span { begin, end, .. }) = string.or_else(scalar) else { return };
        if self.known.replace(text, begin..end) {
            self.cut = begin..end;
            self.values.clone_from(&self.spans);
            for span in self.values.iter_mut().filter(|span| span.end == end) {
                span.is_plain = true; // as it is where only a short string is looked for
            }
            self.has_high = has_high;
        }
    }
}

/// A state of the checker in which a value that the path has matched so far is expected.
#[derive(Clone, Copy, Default)]
struct Start {
    pos: usize,
    /// The open containers, all of them on the path.
    depth: usize,
    levels: u64,
}

/// A text found valid.
struct Checked {
    /// The wanted value; begins with [`NEVER`] when there is none.
    span: Range<usize>,
    /// The types of the containers around it.
    levels: u64,
    /// Whether it is a string without escapes.
    is_plain: bool,
    /// Whether what follows it was equal to the tail.
    by_tail: bool,
    /// Whether what was read has bytes outside ASCII.
    has_high: bool,
}

impl Checked {
    #[inline(always)]
    fn is_found(&self) -> bool {
        self.span.start != NEVER
    }

    #[inline(always)]
    fn found<'a>(&self, text: &'a [u8]) -> Option<Found<'a>> {
        Some(as_found(text.get(self.span.clone())?, self.is_plain, self.has_high))
    }
}

/// A value of a text; `is_plain`: a string without escapes.
#[inline(always)]
fn as_found(value: &[u8], is_plain: bool, has_high: bool) -> Found<'_> {
    let [_, content @ .., _] = value else {
        return Found::Json(value);
    };
    if !is_plain {
        Found::Json(value)
    } else if has_high && !content.is_ascii() {
        Found::Text(content)
    } else {
        Found::Ascii(content)
    }
}

/// Reads `text` from `start` to its end, or to a value in `tail`'s state that `tail` follows.
#[inline]
fn check(
    text: &[u8],
    path: &Path,
    start: Start,
    tail: Option<(&[u8], u64)>,
    is_utf8: bool,
) -> Result<Checked, Malformed> {
    let checked = match walk(text, start, One::new(path, start.depth, tail)) {
        Ok(checked) => checked,
        Err(offset) => return Err(malformed(text, offset)),
    };
    if checked.has_high && !is_utf8 {
        let end = if checked.by_tail { checked.span.end } else { text.len() };
        if !is_well_formed(&text[start.pos..end]) {
            return Err(malformed(text, 0));
        }
    }
    Ok(checked)
}

#[inline(never)]
fn is_well_formed(text: &[u8]) -> bool {
    simdutf8::basic::from_utf8(text).is_ok()
}

#[cold]
#[inline(never)]
fn malformed(text: &[u8], offset: usize) -> Malformed {
    let offset = str::from_utf8(text).map_or_else(|error| error.valid_up_to(), |_| offset);
    Malformed { offset }
}

/// What the checker tells on its way through a text. `depth` counts the open containers around.
trait Targets {
    type Result;

    /// The name of a member, valid, stands in `text[begin..end]`; its value is next.
    fn key(&mut self, text: &[u8], begin: usize, end: usize, is_plain: bool, depth: usize);

    /// An element is next.
    fn element(&mut self, depth: usize);

    /// A container begins.
    fn open(&mut self, begin: usize, depth: usize);

    /// A container has ended; true when the rest need not be read. `levels`: as in [`Start`].
    fn close(&mut self, text: &[u8], end: usize, depth: usize, levels: u64) -> bool;

    /// What is no container has ended; as [`close`](Self::close).
    fn scalar(&mut self, text: &[u8], begin: usize, end: usize, plain: bool, levels: u64) -> bool;

    /// The end. `has_high`: whether what was read has bytes outside ASCII.
    fn finish(self, has_high: bool) -> Self::Result;
}

/// One path, and what may follow its value.
struct One<'a> {
    segments: &'a [Segment],
    tail: Option<(&'a [u8], u64)>,
    /// The containers on the path; the others are inside of them, if there are any.
    on_path: usize,
    /// Of the innermost of these, if it is an object and if it is an array.
    key: Option<&'a [u8]>,
    elements_before: usize,
    /// Whether the path leads to the next value or through it.
    is_match: bool,
    /// Where the wanted value begins, if it is a container and open, and at which depth.
    open: (usize, usize),
    result: Checked,
}

impl<'a> One<'a> {
    #[inline(always)]
    fn new(path: &'a Path, depth: usize, tail: Option<(&'a [u8], u64)>) -> Self {
        One {
            segments: &path.segments,
            tail,
            on_path: depth,
            key: innermost_key(&path.segments[..depth]),
            elements_before: NEVER,
            is_match: true,
            open: (NEVER, NEVER),
            result: Checked {
                span: NEVER..NEVER,
                levels: 0,
                is_plain: false,
                by_tail: false,
                has_high: false,
            },
        }
    }

    #[inline(always)]
    fn found(&mut self, text: &[u8], span: Range<usize>, is_plain: bool, levels: u64) -> bool {
        let end = span.end;
        self.result.span = span;
        self.result.levels = levels;
        self.result.is_plain = is_plain;
        let by_tail =
            self.tail.is_some_and(|(tail, around)| around == levels && text[end..] == *tail);
        if by_tail {
            self.result.by_tail = true;
        }
        by_tail
    }
}

impl Targets for One<'_> {
    type Result = Checked;

    #[inline(always)]
    fn key(&mut self, text: &[u8], begin: usize, end: usize, is_plain: bool, depth: usize) {
        self.is_match = depth == self.on_path
            && self.key.is_some_and(|key| is_named(&text[begin..end], is_plain, key));
        if self.is_match {
            // It replaces what an earlier member of the same name had.
            self.result.span = NEVER..NEVER;
        }
    }

    #[inline(always)]
    fn element(&mut self, depth: usize) {
        self.is_match = depth == self.on_path && self.elements_before == 0;
        if depth == self.on_path {
            self.elements_before = self.elements_before.wrapping_sub(1);
        }
    }

    #[inline(always)]
    fn open(&mut self, begin: usize, depth: usize) {
        if self.is_match && self.on_path == self.segments.len() {
            self.open = (begin, depth);
        } else if self.is_match {
            self.elements_before = self.segments[self.on_path].index();
            self.on_path += 1;
            self.key = innermost_key(&self.segments[..self.on_path]);
        }
    }

    #[inline(always)]
    fn close(&mut self, text: &[u8], end: usize, depth: usize, levels: u64) -> bool {
        if depth + 1 == self.on_path {
            // The path went through here and no other element is on it.
            self.on_path -= 1;
            self.key = innermost_key(&self.segments[..self.on_path]);
            self.elements_before = NEVER;
        }
        if depth != self.open.1 {
            return false;
        }
        let begin = self.open.0;
        self.open = (NEVER, NEVER);
        self.found(text, begin..end, false, levels)
    }

    #[inline(always)]
    fn scalar(&mut self, text: &[u8], begin: usize, end: usize, plain: bool, levels: u64) -> bool {
        self.is_match
            && self.on_path == self.segments.len()
            && self.found(text, begin..end, plain, levels)
    }

    #[inline(always)]
    fn finish(mut self, has_high: bool) -> Checked {
        self.result.has_high = has_high;
        self.result
    }
}

/// Several paths, each a bit of a word.
struct Several<'a> {
    group: &'a Group,
    /// The containers that paths lead to or through; the others are inside of them.
    levels: &'a mut Vec<Level>,
    spans: &'a mut [Span],
    /// As many as `levels` has.
    on_path: usize,
    /// The paths that lead through the innermost of these, those that end inside of it, and what
    /// each of the former takes of it.
    through: u64,
    ends: u64,
    steps: &'a [Step],
    /// The paths that lead to the next value or through it.
    matched: u64,
}

/// Up to 64 paths, as [`Several`] reads them.
#[derive(Clone, Debug)]
struct Group {
    len: usize,
    /// For each depth: a step of each path.
    steps: Box<[Step]>,
    /// For each depth: the paths that are so long.
    ends: Box<[u64]>,
}

#[derive(Clone, Debug)]
struct Step {
    key: Option<Box<[u8]>>,
    /// The paths whose step has the same key, or none as this.
    alike: u64,
    index: usize,
}

/// A container, of those that paths lead to or through.
#[derive(Clone, Copy, Debug)]
struct Level {
    begin: usize,
    /// The paths that lead through it, and those that end with it.
    through: u64,
    wanted: u64,
    /// How many elements have begun.
    elements: usize,
}

/// Where the value of one of several paths stands; it begins with [`NEVER`] when there is none.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin: usize,
    end: usize,
    is_plain: bool,
}

impl Span {
    #[inline(always)]
    fn is_there(self) -> bool {
        self.begin != NEVER
    }

    /// Where the value is after `moves`, of which those come last that are behind the others.
    #[inline(always)]
    fn moved(self, moves: &[Move]) -> Self {
        let mut span = self;
        for Move { known, new, is_plain } in moves.iter().copied() {
            if known <= self.begin {
                span.begin = self.begin - known + new;
            }
            // What comes between the value and the next token is not its end.
            if known < self.end || (known == self.end && is_plain.is_some()) {
                span.end = self.end - known + new;
            }
            if known == self.end {
                span.is_plain = is_plain.unwrap_or(span.is_plain);
            }
        }
        span
    }
}

impl Move {
    fn new(known: usize, moved: &Moved) -> Self {
        match moved {
            Moved::White(new) => Move { known, new: *new, is_plain: None },
            Moved::Scalar(to) => Move { known, new: to.end, is_plain: Some(to.is_plain) },
        }
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (lowest < WORD).then_some(lowest)
    })
}

impl Group {
    fn new(paths: &[Path]) -> Self {
        let deepest = paths.iter().map(|path| path.segments.len()).max().unwrap_or(0);
        let those = |is_one: &dyn Fn(&Path) -> bool| {
            paths
                .iter()
                .enumerate()
                .fold(0, |word, (at, path)| word | u64::from(is_one(path)) << at)
        };
        let mut steps = Vec::new();
        for depth in 0..deepest {
            let key_of =
                |path: &Path| path.segments.get(depth).and_then(Segment::key).map(<[u8]>::to_vec);
            for path in paths {
                let key = key_of(path);
                steps.push(Step {
                    alike: those(&|other| key_of(other) == key),
                    key: key.map(Vec::into_boxed_slice),
                    index: path.segments.get(depth).map_or(NEVER, Segment::index),
                });
            }
        }
        let ends = (0..=deepest).map(|len| those(&|path| path.segments.len() == len)).collect();
        Group { len: paths.len(), steps: steps.into(), ends }
    }

    /// The step of each path in a container at `depth`, the outermost having 1.
    #[inline(always)]
    fn steps(&self, depth: usize) -> &[Step] {
        let from = depth.checked_sub(1).map(|above| above * self.len);
        from.and_then(|from| self.steps.get(from..)).unwrap_or_default()
    }

    #[inline(always)]
    fn ends(&self, len: usize) -> u64 {
        self.ends.get(len).copied().unwrap_or(0)
    }
}

impl<'a> Several<'a> {
    #[inline(always)]
    fn new(group: &'a Group, levels: &'a mut Vec<Level>, spans: &'a mut [Span]) -> Self {
        let matched = (0..group.len).fold(0, |all, path| all | 1 << path);
        let ends = group.ends(0);
        Several { group, levels, spans, on_path: 0, through: 0, ends, steps: &[], matched }
    }
}

impl Targets for Several<'_> {
    type Result = bool;

    #[inline(always)]
    fn key(&mut self, text: &[u8], begin: usize, end: usize, is_plain: bool, depth: usize) {
        self.matched = 0;
        if depth == self.on_path {
            let mut left = self.through;
            while left != 0 {
                let step = &self.steps[left.trailing_zeros() as usize];
                let key = step.key.as_deref();
                if key.is_some_and(|key| is_named(&text[begin..end], is_plain, key)) {
                    self.matched = left & step.alike;
                    for path in ones(self.matched) {
                        // It replaces what an earlier member of the same name had.
                        self.spans[path].begin = NEVER;
                    }
                    break;
                }
                left &= !step.alike;
            }
        }
    }

    #[inline(always)]
    fn element(&mut self, depth: usize) {
        self.matched = 0;
        if depth == self.on_path
            && let Some(level) = self.levels.last_mut()
        {
            for path in ones(self.through) {
                self.matched |= u64::from(self.steps[path].index == level.elements) << path;
            }
            level.elements += 1;
        }
    }

    #[inline(always)]
    fn open(&mut self, begin: usize, _: usize) {
        if self.matched != 0 {
            let wanted = self.matched & self.ends;
            self.through = self.matched & !wanted;
            self.levels.push(Level { begin, through: self.through, wanted, elements: 0 });
            self.on_path += 1;
            self.ends = self.group.ends(self.on_path);
            self.steps = self.group.steps(self.on_path);
        }
    }

    #[inline(always)]
    fn close(&mut self, _: &[u8], end: usize, depth: usize, _: u64) -> bool {
        if depth + 1 == self.on_path
            && let Some(Level { begin, wanted, .. }) = self.levels.pop()
        {
            for path in ones(wanted) {
                self.spans[path] = Span { begin, end, is_plain: false };
            }
            self.on_path -= 1;
            self.through = self.levels.last().map_or(0, |level| level.through);
            self.ends = self.group.ends(self.on_path);
            self.steps = self.group.steps(self.on_path);
        }
        false
    }

    #[inline(always)]
    fn scalar(&mut self, _: &[u8], begin: usize, end: usize, is_plain: bool, _: u64) -> bool {
        for path in ones(self.matched & self.ends) {
            self.spans[path] = Span { begin, end, is_plain };
        }
        false
    }

    #[inline(always)]
    fn finish(self, has_high: bool) -> bool {
        has_high
    }
}

/// The checker, but for UTF-8; an error is the offset.
#[allow(clippy::too_many_lines)] // one loop, so that the state stays in registers
fn walk<T: Targets>(text: &[u8], start: Start, mut targets: T) -> Result<T::Result, usize> {
    let Start { mut pos, mut depth, levels: mut word } = start;
    let mut strings = Strings::new(text);
    strings.mark(pos);
    let mut spilled = Vec::new();
    macro_rules! token {
        () => {
            match text.get(pos) {
                Some(&byte) if byte > b' ' => byte,
                _ => {
                    pos = skip_white(text, pos);
                    *text.get(pos).ok_or(pos)?
                }
            }
        };
    }
    // From the opening quote; true when there are no escapes.
    macro_rules! string {
        () => {{
            pos += 1;
            let end = strings.special(pos);
            let is_plain = text.get(end) == Some(&b'"');
            if is_plain {
                pos = end + 1;
            } else {
                let mut walk = strings;
                pos = escaped_string(text, &mut walk, end)?;
                strings = walk;
            }
            is_plain
        }};
    }
    // From the opening quote of a key to its value.
    macro_rules! key {
        () => {{
            if text[pos] != b'"' {
                return Err(misplaced(text, pos, b'}'));
            }
            let begin = pos + 1;
            let is_plain = string!();
            targets.key(text, begin, pos - 1, is_plain, depth);
            if text.get(pos) != Some(&b':') {
                let byte = token!();
                if byte != b':' {
                    return Err(pos);
                }
            }
            pos += 1;
        }};
    }
    macro_rules! push {
        ($is_object:literal) => {{
            targets.open(pos, depth);
            pos += 1;
            if depth >= WORD && depth.is_multiple_of(WORD) {
                if depth >= MAX_DEPTH {
                    return Err(pos);
                }
                spilled.push(word);
            }
            word = word << 1 | u64::from($is_object);
            depth += 1;
        }};
    }
    macro_rules! pop {
        () => {{
            pos += 1;
            depth -= 1;
            word >>= 1;
            if depth >= WORD && depth.is_multiple_of(WORD) {
                word = spilled.pop().unwrap_or(0);
            }
            if targets.close(text, pos, depth, word) {
                return Ok(targets.finish(strings.high_until(pos)));
            }
        }};
    }
    'value: loop {
        let byte = token!();
        'container: {
            let begin = pos;
            let mut is_plain = false;
            match byte {
                b'"' => is_plain = string!(),
                b'-' | b'0'..=b'9' => pos = number(text, pos)?,
                b'{' => {
                    push!(true);
                    if token!() != b'}' {
                        key!();
                        continue 'value;
                    }
                    pop!();
                    break 'container;
                }
                b'[' => {
                    push!(false);
                    if token!() != b']' {
                        targets.element(depth);
                        continue 'value;
                    }
                    pop!();
                    break 'container;
                }
                b'n' => pos = literal(text, pos, b"null")?,
                b't' => pos = literal(text, pos, b"true")?,
                b'f' => pos = literal(text, pos, b"false")?,
                _ => return Err(misplaced(text, pos, b']')),
            }
            if targets.scalar(text, begin, pos, is_plain, word) {
                return Ok(targets.finish(strings.high_until(pos)));
            }
        }
        loop {
            if depth == 0 {
                break 'value;
            }
            let byte = token!();
            let is_object = word & 1 != 0;
            if byte == b',' {
                pos += 1;
                if is_object {
                    token!();
                    key!();
                } else {
                    targets.element(depth);
                }
                continue 'value;
            }
            if byte != if is_object { b'}' } else { b']' } {
                return Err(pos);
            }
            pop!();
        }
    }
    pos = skip_white(text, pos);
    if pos < text.len() {
        return Err(pos);
    }
    Ok(targets.finish(strings.high_until(pos)))
}

/// How many bytes two slices have in common at their beginnings.
#[inline(always)]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 16;
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let differing = |x: &[u8; STEP], y: &[u8; STEP]| {
        let difference = u128::from_le_bytes(*x) ^ u128::from_le_bytes(*y);
        (difference != 0).then(|| difference.trailing_zeros() as usize / 8)
    };
    let (steps, rest) = a.as_chunks::<STEP>();
    for (at, (x, y)) in steps.iter().zip(b.as_chunks().0).enumerate() {
        if let Some(found) = differing(x, y) {
            return at * STEP + found;
        }
    }
    if let (Some(x), Some(y)) = (a.last_chunk(), b.last_chunk()) {
        // The first part of it was equal.
        return differing(x, y).map_or(len, |found| len - STEP + found);
    }
    let before = len - rest.len();
    before + rest.iter().zip(&b[before..]).take_while(|(x, y)| x == y).count()
}

/// Whether a name, valid between its quotes, is `key`.
#[inline(always)]
fn is_named(name: &[u8], is_plain: bool, key: &[u8]) -> bool {
    if is_plain { name == key } else { decodes_to(name, key) }
}

#[inline(always)]
fn innermost_key(segments: &[Segment]) -> Option<&[u8]> {
    segments.last().and_then(Segment::key)
}

/// The first byte at or after `pos` that is no white space, or the end.
#[inline(never)]
fn skip_white(text: &[u8], mut pos: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(pos) {
        pos += 1;
    }
    pos
}

/// The offset of an error at `pos`, where something else should begin.
///
/// It is at the comma if only that keeps `close` from closing the container.
#[cold]
fn misplaced(text: &[u8], pos: usize, close: u8) -> usize {
    match text[..pos].trim_ascii_end() {
        [before @ .., b','] if text[pos] == close => before.len(),
        _ => pos,
    }
}

#[inline(always)]
fn literal<const N: usize>(text: &[u8], pos: usize, literal: &[u8; N]) -> Result<usize, usize> {
    let rest = &text[pos..];
    if rest.first_chunk() == Some(literal) {
        Ok(pos + N)
    } else {
        Err(if literal.starts_with(rest) { text.len() } else { pos })
    }
}

/// From the first byte of a number to its end.
#[inline(always)]
fn number(text: &[u8], begin: usize) -> Result<usize, usize> {
    let mut pos = begin + usize::from(text[begin] == b'-');
    let first = *text.get(pos).ok_or(pos)?;
    pos = digits(text, pos)?;
    let is_integer = !matches!(text.get(pos), Some(b'.' | b'e' | b'E'));
    if is_integer && (first != b'0' || pos - begin == 1) && pos - begin <= HARMLESS_NUMBER {
        return Ok(pos);
    }
    number_rest(text, begin, pos)
}

/// At least one digit.
#[inline(always)]
fn digits(text: &[u8], begin: usize) -> Result<usize, usize> {
    let mut pos = begin;
    while text.get(pos).is_some_and(u8::is_ascii_digit) {
        pos += 1;
    }
    if pos == begin { Err(pos) } else { Ok(pos) }
}

/// What is not a short integer: the integer part ends at `pos`.
#[inline(never)]
fn number_rest(text: &[u8], begin: usize, mut pos: usize) -> Result<usize, usize> {
    let integer = begin + usize::from(text[begin] == b'-');
    if text[integer] == b'0' && pos > integer + 1 {
        return Err(integer);
    }
    if text.get(pos) == Some(&b'.') {
        pos = digits(text, pos + 1)?;
    }
    let mut has_exponent = false;
    if let Some(b'e' | b'E') = text.get(pos) {
        has_exponent = true;
        pos += 1;
        if let Some(b'+' | b'-') = text.get(pos) {
            pos += 1;
        }
        pos = digits(text, pos)?;
    }
    if has_exponent || pos - begin > HARMLESS_NUMBER {
        let number = str::from_utf8(&text[begin..pos]).ok().and_then(|text| text.parse().ok());
        if !number.is_some_and(f64::is_finite) {
            return Err(begin);
        }
    }
    Ok(pos)
}

/// The rest of a string from `pos`, where a plain run has ended, to after its closing quote.
#[inline(never)]
fn escaped_string(text: &[u8], strings: &mut Strings<'_>, mut pos: usize) -> Result<usize, usize> {
    loop {
        match *text.get(pos).ok_or(pos)? {
            b'"' => return Ok(pos + 1),
            b'\\' => pos = strings.special(escape(text, pos)?),
            _ => return Err(pos),
        }
    }
}

/// From a backslash to what follows the escape, or the pair of escapes.
#[inline(always)]
fn escape(text: &[u8], begin: usize) -> Result<usize, usize> {
    match *text.get(begin + 1).ok_or(text.len())? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(begin + 2),
        b'u' => {
            let unit = |at: usize| {
                let rest = text.get(at..).unwrap_or_default();
                rest.first_chunk().and_then(code_unit).ok_or_else(|| {
                    let is_cut = rest.len() < 4 && rest.iter().all(u8::is_ascii_hexdigit);
                    if is_cut { text.len() } else { begin }
                })
            };
            match unit(begin + 2)? {
                0xdc00..=0xdfff => Err(begin),
                0xd800..=0xdbff => {
                    for (at, expected) in [(begin + 6, b'\\'), (begin + 7, b'u')] {
                        if *text.get(at).ok_or(text.len())? != expected {
                            return Err(begin);
                        }
                    }
                    match unit(begin + 8)? {
                        0xdc00..=0xdfff => Ok(begin + 12),
                        _ => Err(begin),
                    }
                }
                _ => Ok(begin + 6),
            }
        }
        _ => Err(begin),
    }
}

/// Four hexadecimal digits.
#[inline(always)]
fn code_unit(digits: &[u8; 4]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(unit << 4 | u16::from(digit))
    })
}

/// Whether `name`, valid between its quotes, is `key` once its escapes are decoded.
#[cold]
fn decodes_to(mut name: &[u8], mut key: &[u8]) -> bool {
    loop {
        let plain = memchr::memchr(b'\\', name).unwrap_or(name.len());
        let Some(rest) = key.strip_prefix(&name[..plain]) else {
            return false;
        };
        key = rest;
        name = &name[plain..];
        let mut utf8 = [0; 4];
        let (decoded, len) = match name {
            [] => return key.is_empty(),
            [_, b'u', rest @ ..] => {
                let unit = |at| rest.get(at..).and_then(<[u8]>::first_chunk).and_then(code_unit);
                let units = [unit(0), unit(6)].map(Option::unwrap_or_default);
                let Some(Ok(decoded)) = char::decode_utf16(units).next() else {
                    return false;
                };
                (decoded, 6 * decoded.len_utf16())
            }
            [_, escaped, ..] => {
                let decoded = match escaped {
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    same => *same,
                };
                (char::from(decoded), 2)
            }
            [_] => return false,
        };
        let Some(rest) = key.strip_prefix(decoded.encode_utf8(&mut utf8).as_bytes()) else {
            return false;
        };
        key = rest;
        name = &name[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_string_is_what_it_should_be() {
        let plain = b"\"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut found = 0;
        for end in 1..plain.len() {
            for len in end + 1..plain.len() {
                for byte in 0..=u8::MAX {
                    let mut text = plain[..len].to_vec();
                    text[end] = byte;
                    // The next byte is what a borrow from this one would spoil.
                    for next in [b'"', b'#', b' ', b'!', b'\\', b']', 0x80] {
                        if let Some(after) = text.get_mut(end + 1) {
                            *after = next;
                        }
                        let special = |&byte: &u8| byte < b' ' || b"\"\\".contains(&byte);
                        let is_special = |byte: &u8| special(byte) || !byte.is_ascii();
                        let stop = text[1..].iter().position(is_special).map(|at| at + 1);
                        let want = stop.filter(|&stop| text[stop] == b'"').map(|stop| stop + 1);
                        let got = short_string(&text, 0);
                        found += u32::from(got.is_some());
                        assert!(got.is_none() || got == want, "{text:?}");
                    }
                }
            }
        }
        assert!(found > 1000, "{found}");
        assert_eq!(short_string(b"{\"a\":\"b\"}", 5), Some(8));
        assert_eq!(short_string(b"{\"a\":\"bcd", 5), None);
        assert_eq!(short_string(b"{\"a\":\"", 5), None);
        assert_eq!(short_string(b"\"a\"}", 0), None, "too short for a word");
        assert_eq!(short_string(plain, 1), None);
        assert_eq!(short_string(plain, 99), None);
    }

    #[test]
    fn scalars_and_white_space_may_differ() {
        let path: Path = ["c", "a"].map(|key| Segment::Key(key.into())).into_iter().collect();
        let base = r#"{"n":1,"s":"x\n","c":{"t":[null, 2],"a":"one"},"z":-0.5, "e":"夜"}"#;
        for (text, fits, is_equal) in [
            (base, true, true),
            (&base.replace("one", "a text of more than three words, in fact"), true, true),
            (&base.replace("one", "\\u00e9"), true, true),
            (&base.replace("\"one\"", "12"), true, true),
            (&base.replace("\"one\"", "[]"), true, true),
            (&base.replace('1', "1234"), true, false),
            (&base.replace('1', "\"夜\""), true, false),
            (&base.replace("null", "true"), true, false),
            (&base.replace("null, 2", " -1 ,3"), true, false),
            (&base.replace("-0.5", "-0.55e1"), true, false),
            (&base.replace(':', " : ").replace('}', "\n}"), true, false),
            (&base.replace(' ', ""), true, false),
            (&base.replace('夜', "a text of more than three words, in fact"), true, false),
            // After the value another text is just read.
            (&base.replace("\"z\"", "\"y\""), true, false),
            (&base.replace("-0.5", "[]"), true, false),
            (&base.replace("\"n\"", "\"m\""), false, false),
            (&base.replace("null", "[]"), false, false),
            (&base.replace("null, ", ""), false, false),
        ] {
            let mut memo = Memo::new(path.clone());
            assert!(memo.find(base.as_bytes(), true).is_ok());
            let fitted = memo.fit(text.as_bytes(), false);
            assert_eq!(fitted.is_some(), fits, "{text}");
            if let Some((checked, equal)) = fitted {
                assert_eq!(equal, is_equal, "{text}");
                assert_eq!(
                    checked.found(text.as_bytes()),
                    find(text.as_bytes(), &path).expect(text)
                );
            }
        }
    }

    #[test]
    fn memo_is_bounded() {
        let mut memo = Memo::new([Segment::Key("a".into())].into_iter().collect());
        let long = |len: usize| "x".repeat(len);
        for (before, after) in [(10, 4000), (4000, 10), (2000, 2000), (10, 5000), (5000, 10)] {
            for round in 0..3 {
                let (before, after) = (long(before), long(after + round));
                let text = format!("{{\"b\":\"{before}\",\"a\":\"y\",\"c\":\"{after}\"}}");
                assert_eq!(memo.find(text.as_bytes(), false), Ok(Some(Found::Ascii(b"y"))));
                assert!(memo.known.bytes.len() <= MAX_REMEMBERED);
                assert!(memo.known.bytes.capacity() <= MAX_REMEMBERED);
            }
        }
        assert!(memo.known.has_prefix);
    }
}
