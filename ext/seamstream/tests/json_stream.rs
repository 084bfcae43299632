//! The JSON framing vectors, at every cut, and what no vector can say.

mod common;

use common::{fragmentations, input, load};
use seamstream::json_stream::{Frame, Framing, JsonParser, Kind, Options, Sink, Stats};
use seamstream::sse::{Error, Flow, Payload};
use serde_json::Value;
use std::convert::Infallible;

/// Kind, bytes, offset.
type Item = (Kind, Vec<u8>, u64);

/// Takes everything; stops after every frame if it is to.
#[derive(Default)]
struct Collector {
    items: Vec<Item>,
    stops: bool,
}

impl Sink<Vec<u8>> for Collector {
    type Error = Infallible;

    fn frame(&mut self, frame: Frame<'_, Vec<u8>>) -> Result<Flow, Infallible> {
        let bytes = match frame.payload {
            Payload::Slice(bytes) => bytes.to_vec(),
            Payload::Owned(buffer) => std::mem::take(buffer),
        };
        self.items.push((frame.kind, bytes, frame.offset));
        Ok(if self.stops { Flow::Stop } else { Flow::Continue })
    }
}

/// What a stream gave.
#[derive(Debug, PartialEq)]
struct Decoded {
    items: Vec<Item>,
    error: Option<Error<Infallible>>,
    stats: Stats,
    array_closed: Option<bool>,
}

fn options(framing: Framing) -> Options {
    Options { framing, max_event_bytes: 8 << 20, max_depth: 1024, skip_oversize: false }
}

fn decode(options: Options, chunks: &[&[u8]], stops: bool) -> Decoded {
    let mut parser = JsonParser::new(options);
    let mut collector = Collector { stops, ..Collector::default() };
    let mut error = None;
    'all: for chunk in chunks {
        let mut rest = *chunk;
        loop {
            match parser.feed(rest, &mut collector) {
                Ok(used) => rest = &rest[used..],
                Err(found) => {
                    error = Some(found);
                    break 'all;
                }
            }
            if rest.is_empty() {
                break;
            }
            assert!(stops);
        }
        assert!(parser.pending_bytes() <= options.max_event_bytes);
    }
    if error.is_none() {
        error = parser.close(&mut collector).err();
    }
    let array_closed = parser.is_array_closed();
    Decoded { items: collector.items, error, stats: *parser.stats(), array_closed }
}

fn framing_of(vector: &Value) -> Framing {
    match vector["mode"].as_str() {
        Some("concatenated") => Framing::Concatenated,
        Some("ndjson") => Framing::Ndjson,
        Some("array") => Framing::Array,
        Some("json-seq") => Framing::JsonSeq,
        mode => panic!("unknown framing {mode:?}"),
    }
}

/// Equality in which -0 is 0, as it is for the vectors.
fn is_same(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Number(a), Value::Number(b)) => a == b || (is_zero(a) && is_zero(b)),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => value == other,
    }
}

fn is_zero(number: &serde_json::Number) -> bool {
    number.as_f64().is_some_and(|number| number == 0.0)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn vectors_hold_at_every_cut() {
    for vector in load("json_stream") {
        let name = &vector["name"];
        let bytes = input(&vector);
        let options = options(framing_of(&vector));
        let mut first = None;
        for chunks in fragmentations(&bytes) {
            for stops in [false, true] {
                let got = decode(options, &chunks, stops);
                let want = first.get_or_insert_with(|| decode(options, &[&bytes], false));
                assert_eq!(&got, want, "{name} {chunks:?}");
            }
        }
        let mut items = first.expect("there is a fragmentation").items;
        let mut rest = String::new();
        if let Some((Kind::Torn, raw, _)) = items.last() {
            rest = hex(raw);
            items.pop();
        }
        assert_eq!(Value::from(rest), vector["rest"], "{name}");
        let wanted = vector["items"].as_array().expect("items is a list");
        assert_eq!(items.len(), wanted.len(), "{name}: {items:?}");
        for ((kind, raw, offset), item) in items.iter().zip(wanted) {
            let at = usize::try_from(*offset).expect("a short vector");
            assert!(bytes[at..].starts_with(raw), "{name}");
            if let Some(kind) = kind.code() {
                assert_eq!(item["error"], kind, "{name}");
                assert_eq!(item["raw"], hex(raw), "{name}");
            } else {
                let value: Value = serde_json::from_slice(raw).expect("a value is JSON");
                assert!(is_same(&value, &item["ok"]), "{name}: {value}");
            }
        }
        let closed = decode(options, &[&bytes], false).array_closed;
        assert_eq!(closed.map_or(Value::Null, Value::from), vector["closed"], "{name}");
    }
}

#[test]
fn frames_are_out_with_the_byte_that_settles_them() {
    for vector in load("json_stream") {
        let bytes = input(&vector);
        let mut parser = JsonParser::new(options(framing_of(&vector)));
        let mut collector = Collector::default();
        let mut ready = Vec::new();
        for (at, byte) in bytes.chunks(1).enumerate() {
            parser.feed(byte, &mut collector).expect("within limits");
            ready.resize(collector.items.len(), Value::from(at + 1));
        }
        parser.close(&mut collector).expect("within limits");
        let torn = usize::from(matches!(collector.items.last(), Some((Kind::Torn, ..))));
        ready.resize(collector.items.len() - torn, Value::Null);
        assert_eq!(Value::from(ready), vector["ready"], "{}", vector["name"]);
    }
}

#[test]
fn limits_cut_at_the_same_byte_for_every_cut() {
    for vector in load("json_stream") {
        let bytes = input(&vector);
        for max_event_bytes in [1, 2, 4, 7, 8, 12, 20] {
            for skip_oversize in [false, true] {
                let options =
                    Options { max_event_bytes, skip_oversize, ..options(framing_of(&vector)) };
                let whole = decode(options, &[&bytes], false);
                for (kind, raw, _) in &whole.items {
                    assert!(raw.len() <= max_event_bytes);
                    assert!(*kind != Kind::Oversize || (skip_oversize && raw.is_empty()));
                }
                if let Some(error) = whole.error {
                    assert_eq!(error, Error::Limit { offset: whole.stats.bytes });
                }
                for chunks in fragmentations(&bytes) {
                    let got = decode(options, &chunks, false);
                    assert_eq!(got, whole, "{} {max_event_bytes} {chunks:?}", vector["name"]);
                }
            }
        }
    }
}

#[test]
fn oversize_value_is_one_frame_and_the_next_is_kept() {
    let options =
        Options { max_event_bytes: 20, skip_oversize: true, ..options(Framing::Concatenated) };
    let stream = b"{\"a\":\"0123456789abcdef\"}{\"b\":2}";
    let got = decode(options, &[stream], false);
    assert_eq!(got.items[0], (Kind::Oversize, Vec::new(), 0));
    assert_eq!(got.items[1], (Kind::Value, b"{\"b\":2}".to_vec(), 24));
    assert_eq!((got.stats.oversize, got.stats.frames), (1, 1));
}

#[test]
fn frame_after_an_oversize_one_that_was_cut_in_a_string_is_kept() {
    let options =
        Options { max_event_bytes: 20, skip_oversize: true, ..options(Framing::Concatenated) };
    let stream = b"{\"a\":\"0123456789abcdef{ \"b\":{\"c\":2}}";
    for chunks in fragmentations(stream) {
        let got = decode(options, &chunks, false);
        assert_eq!(got.items[0], (Kind::Oversize, Vec::new(), 0));
        assert_eq!(got.items[1].1, b"{ \"b\":{\"c\":2}}");
    }
}

#[test]
fn deep_nesting_is_an_error_of_its_own_bytes() {
    let depth = 100_000;
    let mut stream = vec![b'['; depth];
    stream.extend(vec![b']'; depth]);
    stream.extend(b"{\"a\":1}");
    let got = decode(options(Framing::Concatenated), &[&stream], false);
    assert_eq!(got.items[0], (Kind::Syntax, stream[..2 * depth].to_vec(), 0));
    assert_eq!(got.items[1].0, Kind::Value);

    let endless = vec![b'['; 1000];
    let options =
        Options { max_event_bytes: 64, skip_oversize: true, ..options(Framing::Concatenated) };
    let chunks: Vec<&[u8]> = endless.chunks(7).chain([&b"{\"a\":1}"[..]]).collect();
    let got = decode(options, &chunks, false);
    assert_eq!(got.items[0], (Kind::Oversize, Vec::new(), 0));
    assert_eq!(got.items[1].1, b"{\"a\":1}");
}

#[test]
fn value_over_many_chunks_is_collected_where_it_stays() {
    let mut stream = b"{\"a\":\"".to_vec();
    stream.resize(1 << 20, b'x');
    stream.extend(b"\"}\n");
    for framing in [Framing::Concatenated, Framing::Ndjson] {
        let mut parser = JsonParser::<Vec<u8>>::new(options(framing));
        let mut collector = Collector::default();
        for chunk in stream.chunks(1000) {
            parser.feed(chunk, &mut collector).expect("within limits");
        }
        assert_eq!(collector.items.len(), 1);
        assert_eq!(collector.items[0].1, stream[..stream.len() - 1]);
        assert_eq!(parser.pending_bytes(), 0);
    }
}
