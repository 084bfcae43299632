//! `find`, `Memo` and `Many` against a plain recursive reader, on texts made by hand, made at random, and
//! broken at every byte.

use seamstream::get::{Found, Malformed, Many, Memo, Path, Segment, find};
use std::ops::Range;

/// Segments joined by dots; digits are an index, too, and `#` makes them nothing else.
fn path(dotted: &str) -> Path {
    dotted.split_terminator('.').map(segment).collect()
}

fn segment(text: &str) -> Segment {
    match (text.strip_prefix('#'), text.parse()) {
        (Some(index), _) => Segment::Index(index.parse().expect("an index")),
        (None, Ok(index)) => Segment::Either(text.into(), index),
        (None, Err(_)) => Segment::Key(text.into()),
    }
}

/// The reader that the answers are held against: recursive, byte by byte, without any shortcut.
struct Plain<'a> {
    text: &'a str,
    pos: usize,
}

/// A value; only of the containers more than their place is known.
struct Value {
    span: Range<usize>,
    members: Vec<(String, Value)>,
    elements: Vec<Value>,
}

impl Plain<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.pos += 1)
    }

    fn white(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    fn whole(mut self) -> Option<Value> {
        let value = self.value(0)?;
        self.white();
        (self.pos == self.text.len()).then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.white();
        let begin = self.pos;
        let (mut members, mut elements) = (Vec::new(), Vec::new());
        match self.peek()? {
            b'"' => _ = self.string()?,
            open @ (b'{' | b'[') => {
                let close = open + 2;
                self.pos += 1;
                self.white();
                if depth == 1024 {
                    return None;
                }
                if self.eat(close).is_none() {
                    loop {
                        if open == b'{' {
                            self.white();
                            let key = self.string()?;
                            self.white();
                            self.eat(b':')?;
                            members.push((key, self.value(depth + 1)?));
                        } else {
                            elements.push(self.value(depth + 1)?);
                        }
                        self.white();
                        if self.eat(b',').is_none() {
                            break;
                        }
                    }
                    self.eat(close)?;
                }
            }
            b't' | b'f' | b'n' => {
                let literals = ["true", "false", "null"];
                let rest = &self.text[self.pos..];
                self.pos += literals.into_iter().find(|literal| rest.starts_with(literal))?.len();
            }
            _ => self.number()?,
        }
        Some(Value { span: begin..self.pos, members, elements })
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.pos;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.pos += 1;
        }
        (self.pos > begin).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let begin = self.pos;
        _ = self.eat(b'-');
        if self.eat(b'0').is_none() {
            self.digits()?;
        }
        if self.eat(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        let number: f64 = self.text[begin..self.pos].parse().ok()?;
        number.is_finite().then_some(())
    }

    fn string(&mut self) -> Option<String> {
        let begin = self.pos;
        self.eat(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.pos += 2,
                _ => self.pos += 1,
            }
        }
        self.pos += 1;
        // Its own reading of escapes; it refuses what it should.
        serde_json::from_str(self.text.get(begin..self.pos)?).ok()
    }
}

/// The value at `path`, of equal names the last.
fn lookup<'v>(mut value: &'v Value, dotted: &str) -> Option<&'v Value> {
    for segment in dotted.split_terminator('.').map(segment) {
        let (key, index) = match &segment {
            Segment::Key(key) => (Some(key), None),
            Segment::Index(index) => (None, Some(*index)),
            Segment::Either(key, index) => (Some(key), Some(*index)),
        };
        let member =
            value.members.iter().rev().find(|(name, _)| Some(&**name) == key.map(|k| &**k));
        value = match member {
            Some((_, value)) => value,
            None => value.elements.get(index?)?,
        };
    }
    Some(value)
}

/// What `find` should say, but for the offset.
fn expected<'a>(text: &'a [u8], dotted: &str) -> Result<Option<Found<'a>>, ()> {
    let utf8 = str::from_utf8(text).map_err(|_| ())?;
    let value = Plain { text: utf8, pos: 0 }.whole().ok_or(())?;
    Ok(lookup(&value, dotted).map(|value| {
        let text = &text[value.span.clone()];
        match text {
            [b'"', content @ .., b'"'] if !content.contains(&b'\\') => {
                if content.is_ascii() {
                    Found::Ascii(content)
                } else {
                    Found::Text(content)
                }
            }
            _ => Found::Json(text),
        }
    }))
}

/// Asserts that all ways give the same, and returns it.
fn check<'a>(
    text: &'a [u8],
    dotted: &str,
    memo: &mut Memo,
) -> Result<Option<Found<'a>>, Malformed> {
    let found = find(text, memo.path());
    let shown = String::from_utf8_lossy(text);
    assert_eq!(found.map_err(|_| ()), expected(text, dotted), "{dotted} in {shown}");
    assert_eq!(memo.find(text, false), found, "{dotted} in {shown} with {memo:?}");
    if let Err(Malformed { offset }) = found {
        assert!(offset <= text.len(), "{offset} in {shown}");
    }
    found
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 40).unwrap_or(0) % end
    }

    fn choose<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn json(&mut self, depth: usize, out: &mut String) {
        const WHITE: [&str; 8] = ["", "", "", "", "", " ", "\n\t", "\r "];
        out.push_str(self.choose(&WHITE));
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 => out.push_str(self.choose(&[
                "\"\"",
                "\"a\"",
                "\"two words\"",
                "\"}],\"",
                "\"\\\"\"",
                "\"\\ud83d\\ude80\"",
                "\"夜どおし\"",
                "\"a much longer text that goes on past the end of the block it begins in, and on\"",
                "\"ずいぶん長い文で、始まったブロックの終わりを越えて続いていく、まだ続く\"",
            ])),
            1 => out.push_str(self.choose(&["0", "-0", "12", "1e5", "-1.5", "1.25e-7", "1e308"])),
            2 => out.push_str(self.choose(&["null", "true", "false"])),
            3 => {
                out.push('[');
                for at in 0..self.below(4) {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.json(depth - 1, out);
                }
                out.push_str(self.choose(&WHITE));
                out.push(']');
            }
            _ => {
                out.push('{');
                for at in 0..self.below(4) {
                    out.push_str(if at > 0 { "," } else { "" });
                    out.push_str(self.choose(&WHITE));
                    let keys = ["\"a\"", "\"b\"", "\"\\u0061\"", "\"0\"", "\"1\"", "\"é\"", "\"\""];
                    out.push_str(self.choose(&keys));
                    out.push_str(self.choose(&WHITE));
                    out.push(':');
                    self.json(depth - 1, out);
                }
                out.push_str(self.choose(&WHITE));
                out.push('}');
            }
        }
        out.push_str(self.choose(&WHITE));
    }

    /// The same text with other scalars and other white space, here and there.
    fn vary(&mut self, text: &str) -> String {
        let mut varied = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let len = match first {
                '"' => {
                    let mut is_escaped = false;
                    let end = rest[1..].find(|byte| {
                        let ends = byte == '"' && !is_escaped;
                        is_escaped = byte == '\\' && !is_escaped;
                        ends
                    });
                    end.expect("a closing quote") + 2
                }
                '{' | '}' | '[' | ']' | ':' | ',' | ' ' | '\n' | '\t' | '\r' => 1,
                _ => rest.find([',', ']', '}', ' ', '\n', '\t', '\r']).unwrap_or(rest.len()),
            };
            let token;
            (token, rest) = rest.split_at(len);
            let is_name = first == '"' && rest.trim_start().starts_with(':');
            let is_scalar = !"{}[]:, \n\t\r".contains(first) && !is_name;
            let is_white = token.trim().is_empty();
            if is_scalar && self.below(4) == 0 {
                self.json(0, &mut varied);
            } else if !is_white || self.below(6) > 0 {
                varied.push_str(token);
            }
            if self.below(12) == 0 {
                varied.push_str(self.choose(&[" ", "\r\n", "   \t"]));
            }
        }
        varied
    }
}

const PATHS: [&str; 18] = [
    "",
    "a",
    "b",
    "0",
    "#0",
    "#1",
    "é",
    "a.a",
    "a.b",
    "a.0",
    "0.a",
    "1.b",
    "a.#1",
    "0.0",
    "a.a.a",
    "b.0.a",
    "a.1.0.b",
    "a.a.a.a.a",
];

#[test]
fn find_gives_the_value_and_how_it_may_be_read() {
    for (text, dotted, want) in [
        (r#"{"a":"x"}"#, "a", Some(Found::Ascii(b"x"))),
        (r#"{"a":""}"#, "a", Some(Found::Ascii(b""))),
        (r#"{"a":"é"}"#, "a", Some(Found::Text("é".as_bytes()))),
        (r#"{"é":"x"}"#, "é", Some(Found::Ascii(b"x"))),
        (r#"{"a":"\n"}"#, "a", Some(Found::Json(br#""\n""#))),
        (r#"{"a": [1, 2] }"#, "a", Some(Found::Json(b"[1, 2]"))),
        (r#"{"a":null}"#, "a", Some(Found::Json(b"null"))),
        (" 12 ", "", Some(Found::Json(b"12"))),
        ("7", "", Some(Found::Json(b"7"))),
        (r#"{"a":{"b":[0,{"c":5}]}}"#, "a.b.1.c", Some(Found::Json(b"5"))),
        (r#"{"a":{"b":[0,{"c":5}]}}"#, "a.b.2", None),
        (r#"{"a":1}"#, "a.b", None),
        (r#"{"0":1}"#, "0", Some(Found::Json(b"1"))),
        (r#"{"0":1}"#, "#0", None),
        ("[1]", "0", Some(Found::Json(b"1"))),
        ("[1]", "a", None),
        (r#"{"":{"":1}}"#, "", Some(Found::Json(br#"{"":{"":1}}"#))),
        (r#"{"\u0061\n\ud83d\ude80":1}"#, "a\n🚀", Some(Found::Json(b"1"))),
        (r#"{"\u0061":1,"\u0061b":2}"#, "a", Some(Found::Json(b"1"))),
    ] {
        let mut memo = Memo::new(path(dotted));
        assert_eq!(check(text.as_bytes(), dotted, &mut memo), Ok(want), "{dotted} in {text}");
        assert_eq!(check(text.as_bytes(), dotted, &mut memo), Ok(want), "{dotted} in {text}");
    }
}

#[test]
fn last_of_equal_keys_wins_on_every_level() {
    for (text, dotted, want) in [
        (r#"{"a":1,"a":2}"#, "a", Some("2")),
        (r#"{"a":1,"\u0061":2}"#, "a", Some("2")),
        (r#"{"a":{"b":1},"a":{"b":2,"c":3}}"#, "a.b", Some("2")),
        (r#"{"a":{"b":1},"a":{}}"#, "a.b", None),
        (r#"{"a":{"b":1},"a":7}"#, "a.b", None),
        (r#"{"a":{"b":1},"a":[1]}"#, "a.b", None),
        (r#"{"a":[5],"a":{"0":6}}"#, "a.0", Some("6")),
        (r#"{"a":{"b":1},"c":{"a":{"b":2}}}"#, "a.b", Some("1")),
        (r#"{"a":[{"b":1,"b":[2]},{"b":3}]}"#, "a.0.b", Some("[2]")),
    ] {
        let want = want.map(|json| Found::Json(json.as_bytes()));
        let mut memo = Memo::new(path(dotted));
        assert_eq!(check(text.as_bytes(), dotted, &mut memo), Ok(want), "{dotted} in {text}");
        assert_eq!(check(text.as_bytes(), dotted, &mut memo), Ok(want), "{dotted} in {text}");
    }
}

#[test]
fn offset_is_where_it_goes_wrong() {
    for (text, offset) in [
        (&b""[..], 0),
        (b" ", 1),
        (b"{\"a\":tru}", 5),
        (b"{\"a\":tr", 7),
        (b"[1 , ]", 3),
        (b"{\"a\":1,}", 6),
        (b"[1,}", 3),
        (b"[-01]", 2),
        (b"[1.]", 3),
        (b"[1e+]", 4),
        (b"[1,-1e400]", 3),
        (b"[1", 2),
        (b"[1}", 2),
        (b"{1:2}", 1),
        (b"{\"a\" 1}", 5),
        (b"{\"a\":1,\"b\"}", 10),
        (b"1 2", 2),
        (b"[\"ab\\", 5),
        (b"\"abc\\x\"", 4),
        (b"\"\\u12g4\"", 1),
        (b"\"\\u12", 5),
        (b"\"\\u1g", 1),
        (b"\"ab\\n\\ud83d\"", 5),
        (b"\"\\ude80\"", 1),
        (b"[\"\t\"]", 2),
        (b"[\"\xc3\"", 2),
        (b"[x,\"\xff\"]", 4),
        (b"\xef\xbb\xbf{}", 0),
    ] {
        let mut memo = Memo::new(path("a"));
        assert_eq!(check(text, "a", &mut memo), Err(Malformed { offset }), "{text:?}");
    }
    let nested = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
    let root = path("");
    assert!(find(&nested(1024), &root).is_ok());
    assert_eq!(find(&nested(1025), &root), Err(Malformed { offset: 1025 }));
    assert_eq!(find(&vec![b'['; 1 << 20], &root), Err(Malformed { offset: 1025 }));
}

#[test]
fn types_of_deep_containers_are_kept() {
    for levels in [1, 2, 63, 64, 65, 66, 127, 128, 129, 500, 1023, 1024] {
        for bits in [0, 1, u64::MAX, 0x5555_5555_5555_5555, 0x9e37_79b9_7f4a_7c15] {
            let is_object = |level: usize| bits >> (level % 64) & 1 != 0;
            let opens = (0..levels).map(|level| if is_object(level) { "{\"a\":" } else { "[" });
            let closes = (0..levels).rev().map(|level| if is_object(level) { "}" } else { "]" });
            let steps = (0..levels).map(|level| if is_object(level) { "a" } else { "0" });
            let path: Path = steps.map(segment).collect();
            let closes: Vec<_> = closes.collect();
            let text = format!("{}\"x\"{}", opens.collect::<String>(), closes.concat());
            let mut memo = Memo::new(path.clone());
            for text in [&text, &text.replace('x', "yy"), &text.replace('x', "[0]")] {
                let found = find(text.as_bytes(), &path);
                assert!(matches!(found, Ok(Some(Found::Ascii(_)))), "{levels} levels");
                assert_eq!(memo.find(text.as_bytes(), false), found);
                for other in [&Path::default(), &[Segment::Index(1)].into_iter().collect()] {
                    assert!(find(text.as_bytes(), other).is_ok());
                }
            }
            for wrong in [0, levels / 2, levels - 1] {
                let mut closes = closes.clone();
                closes[wrong] = if closes[wrong] == "]" { "}" } else { "]" };
                let at = text.len() - closes.len() + wrong;
                let text = format!("{}{}", &text[..text.len() - closes.len()], closes.concat());
                let want = Err(Malformed { offset: at });
                assert_eq!(find(text.as_bytes(), &path), want);
                assert_eq!(memo.find(text.as_bytes(), false), want);
            }
            // One container more than a parser takes, where the wanted value is.
            let deeper = text.replace("\"x\"", &format!("{}{}", "[".repeat(1025 - levels), "]"));
            assert!(find(deeper.as_bytes(), &path).is_err());
            assert_eq!(memo.find(deeper.as_bytes(), false), find(deeper.as_bytes(), &path));
        }
    }
}

#[test]
fn random_texts_are_read_as_by_the_plain_reader() {
    let mut random = Random(1);
    let mut memos: Vec<_> = PATHS.iter().map(|dotted| Memo::new(path(dotted))).collect();
    let mut found = 0;
    for round in 0..6000 {
        let mut text = String::new();
        random.json(round % 7, &mut text);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        for (dotted, memo) in PATHS.iter().zip(&mut memos) {
            found += usize::from(check(text.as_bytes(), dotted, memo) != Ok(None));
        }
    }
    assert!(found > 9_000, "{found}");
}

#[test]
fn texts_that_vary_are_read_as_without_memory() {
    let mut random = Random(3);
    let mut found = 0;
    for round in 0..1500 {
        let mut text = String::new();
        random.json(2 + round % 4, &mut text);
        let mut memos: Vec<_> = PATHS.iter().map(|dotted| Memo::new(path(dotted))).collect();
        let paths: Vec<_> = (0..4).map(|_| path(PATHS[random.below(PATHS.len())])).collect();
        let mut many: Many = paths.iter().cloned().collect();
        for _ in 0..6 {
            let varied = random.vary(&text);
            assert!(find(varied.as_bytes(), &Path::default()).is_ok(), "{varied} of {text}");
            let mut broken = varied.clone().into_bytes();
            if let Some(byte) = broken.get_mut(random.below(varied.len())) {
                *byte = b"\"\\{}[]:, 01-.e\n\x00\xc3"[random.below(17)];
            }
            for text in [varied.as_bytes(), &broken] {
                for (dotted, memo) in PATHS.iter().zip(&mut memos) {
                    found += usize::from(matches!(check(text, dotted, memo), Ok(Some(_))));
                }
                check_many(text, &paths, &mut many);
            }
        }
    }
    assert!(found > 15_000, "{found}");
}

/// Every way to break `text` by one byte.
fn mutations(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const BYTES: &[u8] = b"\"\\{}[]:, 01-.eEtnua\n\x00\x1f\x7f\x80\xc3\xe3\xff";
    (0..=text.len()).flat_map(move |at| {
        let (before, rest) = text.split_at(at);
        let after = rest.get(1..).unwrap_or_default();
        let changed = BYTES.iter().map(move |&byte| [before, &[byte], after].concat());
        let inserted = BYTES.iter().map(move |&byte| [before, &[byte], rest].concat());
        let doubled = [before, &rest[..rest.len().min(1)], rest].concat();
        let removed = [before, after].concat();
        changed.chain(inserted).chain([before.to_vec(), removed, doubled, rest.to_vec()])
    })
}

#[test]
fn memo_answers_as_without_it_whatever_breaks() {
    const STREAMS: [(&str, &[&str]); 16] = [
        (
            "choices.0.delta.content",
            &[
                r#"{"id":"c","choices":[{"delta":{"content":" tok"},"end":null}],"n":[1]}"#,
                r#"{"id":"c","choices":[{"delta":{"content":"夜 \u00e9"},"end":null}],"n":[1]}"#,
                r#"{"id":"c","choices":[{"delta":{"content":"a text of more than three words"},"end":null}],"n":[2]}"#,
            ],
        ),
        ("a", &[r#"{"a":1}"#, r#"{"a":-12.5e1}"#, r#"{"a":true}"#, r#"{"a":{"b":[]}}"#]),
        ("a", &[r#"{"b":1,"a": "x" , "c":2}"#, r#"{"b":1,"a":"y" , "c":2}"#]),
        ("a", &[r#"{"a":"x","a":"y","b":"z"}"#, r#"{"a":"x","b":"y","b":"z"}"#]),
        ("a", &[r#"{"a":"x","b":"y"}"#, r#"{"a":"x","a":"y"}"#, r#"{"a":"z","\u0061":"y"}"#]),
        ("a.b", &[r#"{"a":{"b":1},"c":0}"#, r#"{"a":{"b":2},"a":0}"#, r#"{"c":{"b":2},"a":0}"#]),
        ("0", &["[1]", "[]", "[12]", "[ 3, 4]", r#"{"0":5}"#]),
        ("0.0", &["[[1],2]", "[[],2]", r#"[{"0":1},2]"#, r#"{"0":[1],"1":2}"#, "[[1}]"]),
        ("1.a", &[r#"[0,{"a":[1]},2]"#, r#"[0,{"a":{}},2]"#, r#"[{"a":1},2]"#, r#"[0,1,{"a":1}]"#]),
        ("", &["12", " 12 ", "\"x\"", "{}", "tru", "true"]),
        ("é.a", &[r#"{"é":{"a":"é"},"ü":"ü"}"#, r#"{"é":{"a":"ü"},"ü":"ü"}"#]),
        (
            "c.a",
            &[
                r#"{"n":17,"b":[null, {"x":"é"}],"c":{"t":"text","a":" one"},"u":{"n":1}, "e":-0.5}"#,
                r#"{"n":1, "b":["nul",{"x":-1}],"c":{"t":"x\u00e9y","a":"\n"}, "u":{"n":12},"e":1e5 }"#,
                r#"{"n":{},"b":[null,{"x":"é"}],"c":{"t":"text","a":{}},"u":{"n":1},"e":true}"#,
            ],
        ),
        ("c", &[r#"{"a":"é","c":{"d":1},"e":"é"}"#, r#"{"a":"ü","c":{"d":12},"e":"ü"}"#]),
        ("c", &[r#"[{"a":1},2]"#, r#"{"a":"夜どおし、夜どおし、夜どおし","c":"短い"}"#]),
        ("a", &[r#"{"a":"x"}"#, r#"{"a":"x"  }"#, r#"{"a":"x"    }"#, r#" { "a" : "x" } "#]),
        ("a", &["{\"a\":\"x\"}\n", "{\"a\":1e5}\n", "{\"a\":null}", "{\"a\":[[\"x\"]]}\n"]),
    ];
    let mut cases = 0_usize;
    for (dotted, texts) in STREAMS {
        let pairs = texts.iter().flat_map(|first| texts.iter().map(move |second| (first, second)));
        for (first, second) in pairs {
            let mut memo = Memo::new(path(dotted));
            for mutation in mutations(second.as_bytes()) {
                for text in [first.as_bytes(), &mutation, second.as_bytes(), &mutation] {
                    _ = check(text, dotted, &mut memo);
                }
                // Each that is remembered, with each after it.
                for texts in [[first.as_bytes(), &mutation], [&mutation, second.as_bytes()]] {
                    let mut memo = Memo::new(path(dotted));
                    for text in texts {
                        _ = check(text, dotted, &mut memo);
                    }
                }
                cases += 1;
            }
        }
    }
    assert!(cases > 100_000, "{cases}");
}

#[test]
fn memo_survives_what_is_too_long_for_it() {
    let mut memo = Memo::new(path("a"));
    for (before, after) in
        [(10, 10), (4000, 10), (4100, 10), (10, 4090), (3000, 3000), (0, 0), (4080, 4), (4080, 40)]
    {
        for value in ["\"x\"", "\"é\"", "17", "{\"a\":[]}"] {
            let (before, after) = ("x".repeat(before), "y".repeat(after));
            for text in [
                format!("{{\"b\":\"{before}\",\"a\":{value},\"c\":\"{after}\"}}"),
                format!("{{\"b\":\"{before}\",\"a\":{value},\"c\":\"{after}z\"}}"),
                format!("{{\"b\":\"{before}\",\"a\":{value},\"c\":\"{after}\",\"a\":0}}"),
                format!("{{\"b\":\"{before}\",\"a\":{value},\"c\":\"{after}}}"),
            ] {
                _ = check(text.as_bytes(), "a", &mut memo);
                _ = check(text.as_bytes(), "a", &mut memo);
            }
        }
    }
}

#[test]
fn memo_gives_up_and_takes_heart_again() {
    let mut memo = Memo::new(path("a"));
    for round in 0..2000 {
        let part = if round % 500 < 400 { round } else { 7 };
        let text = format!("{{\"n\":{part},\"a\":\"{round}\",\"m\":{part}}}");
        assert_ne!(check(text.as_bytes(), "a", &mut memo), Ok(None));
    }
}

/// Asserts that a group gives what each of its paths gives alone.
fn check_many(text: &[u8], paths: &[Path], many: &mut Many) {
    let shown = String::from_utf8_lossy(text);
    let alone = find(text, &Path::default())
        .and_then(|_| paths.iter().map(|path| find(text, path)).collect::<Result<Vec<_>, _>>());
    let mut found = vec![None; paths.len()];
    let done = many.find(text, false, &mut found).map(|()| found);
    assert_eq!(done, alone, "{paths:?} in {shown} with {many:?}");
}

#[test]
fn many_gives_what_each_path_gives_alone() {
    let mut random = Random(2);
    let mut groups: Vec<(Vec<Path>, Many)> = Vec::new();
    for len in [1, 2, 2, 3, 5, PATHS.len(), 64, 65, 150] {
        let paths: Vec<_> = (0..len).map(|_| path(PATHS[random.below(PATHS.len())])).collect();
        let many = paths.iter().cloned().collect();
        groups.push((paths, many));
    }
    let mut broken = 0;
    for round in 0..3000 {
        let mut text = String::new();
        random.json(round % 7, &mut text);
        for (paths, many) in &mut groups {
            check_many(text.as_bytes(), paths, many);
        }
        text.truncate(text.floor_char_boundary(random.below(text.len() + 1)));
        broken += usize::from(find(text.as_bytes(), &Path::default()).is_err());
        for (paths, many) in &mut groups {
            check_many(text.as_bytes(), paths, many);
        }
    }
    assert!(broken > 1000, "{broken}");
}

#[test]
fn many_answers_as_without_memory_whatever_breaks() {
    const STREAMS: [(&[&str], &[&str]); 8] = [
        (
            &["choices.0.delta.content", "choices.0.end", "n.0", "choices", "", "id"],
            &[
                r#"{"choices":[{"delta":{"content":" tok"},"end":null}],"n":[1],"id":"x"}"#,
                r#"{"choices":[{"delta":{"content":"夜 \u00e9"},"end":null}],"n":[1],"id":"x"}"#,
                r#"{"choices":[{"delta":{"content":"k"},"end":"stop"}],"n":[2],"id":"y"}"#,
            ],
        ),
        (
            &["a", "a.b", "b", "a"],
            &[
                r#"{"a":"x","a":"y","b":"z"}"#,
                r#"{"a":"x","b":"y","b":"z"}"#,
                r#"{"a":"z","\u0061":{"b":"y"},"b":1}"#,
                r#"{"a":{"b":"y"},"a":"z"}"#,
            ],
        ),
        (
            &["0", "#0", "0.0", "#1", "1.a", "1.#0"],
            &[r#"["x",{"a":"y"}]"#, r#"[["x"],["y"]]"#, r#"{"0":"x","1":["y"]}"#, "[ ]"],
        ),
        (&["", "a"], &[r#""x""#, r#""yy" "#, r#"{"a":"x"}"#, "tru"]),
        (&["é.a", "ü"], &[r#"{"é":{"a":"é"},"ü":"ü"}"#, r#"{"é":{"a":"u"},"ü":"ü"}"#]),
        (&[], &[r#"{"a":"x"}"#, "[1]"]),
        (
            &["b", "c.a", "c", "e", "b.1.x", "u.n"],
            &[
                r#"{"n":17,"b":[null, {"x":"é"}],"c":{"t":"text","a":" one"},"u":{"n":1}, "e":-0.5}"#,
                r#"{"n":1, "b":["nul",{"x":-1}],"c":{"t":"x\u00e9y","a":"\n"}, "u":{"n":12},"e":1e5 }"#,
            ],
        ),
        (&["a", "b"], &[r#"{"a":1,"b":[2]}"#, r#"{"a":17 , "b":[] }"#, r#"{"a":null,"b":"x"}"#]),
    ];
    let mut cases = 0_usize;
    for (dotted, texts) in STREAMS {
        let paths: Vec<_> = dotted.iter().map(|dotted| path(dotted)).collect();
        for (first, second) in
            texts.iter().flat_map(|first| texts.iter().map(move |second| (first, second)))
        {
            let mut many: Many = paths.iter().cloned().collect();
            for mutation in mutations(second.as_bytes()) {
                for text in [first.as_bytes(), &mutation, second.as_bytes(), &mutation] {
                    check_many(text, &paths, &mut many);
                }
                // Each that is remembered, with each after it.
                for texts in [[first.as_bytes(), &mutation], [&mutation, second.as_bytes()]] {
                    let mut many: Many = paths.iter().cloned().collect();
                    for text in texts {
                        check_many(text, &paths, &mut many);
                    }
                }
                cases += 1;
            }
        }
    }
    assert!(cases > 50_000, "{cases}");
}
