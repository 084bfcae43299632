//! The event-stream vectors, at every cut, and what no vector can say.

mod common;

use common::{fragmentations, input, load};
use seamstream::sse::{Block, Error, Flow, MAX_RETRY, Options, Profile, Sink, SseParser, is_done};
use serde_json::{Value, json};
use std::convert::Infallible;

const OPTIONS: Options = Options {
    max_event_bytes: 8 << 20,
    skip_oversize: false,
    keep_wire: false,
    flush_torn: false,
    profile: Profile::Whatwg,
};

/// Takes everything, decoded as the standard says.
#[derive(Default, Debug, PartialEq, Clone)]
struct Collector {
    last_event_id: String,
    events: Vec<Value>,
    wires: Vec<Vec<u8>>,
    offsets: Vec<u64>,
    torn: Option<Vec<u8>>,
}

impl Sink<Vec<u8>> for Collector {
    type Error = Infallible;

    fn commit_id(&mut self, id: &[u8]) -> Result<(), Infallible> {
        self.last_event_id = String::from_utf8_lossy(id).into_owned();
        Ok(())
    }

    fn has_id(&self) -> bool {
        !self.last_event_id.is_empty()
    }

    fn event(&mut self, block: Block<'_, Vec<u8>>) -> Result<Flow, Infallible> {
        if let Some(wire) = &block.wire {
            self.wires.push(wire.as_slice().to_vec());
        }
        self.offsets.push(block.offset);
        if block.torn {
            self.torn = Some(block.payload.as_slice().to_vec());
            return Ok(Flow::Continue);
        }
        let event = if block.event.is_empty() { b"message" } else { block.event };
        self.events.push(json!({
            "event": String::from_utf8_lossy(event),
            "data": String::from_utf8_lossy(block.payload.as_slice()),
            "id": self.last_event_id,
            "retry": block.retry,
        }));
        Ok(Flow::Continue)
    }
}

/// What a stream gives; the same with the quick way first, where there is one.
fn decode(
    options: Options,
    chunks: &[&[u8]],
) -> (Collector, SseParser<Vec<u8>>, Option<Error<Infallible>>) {
    let decoded = decode_by(options, chunks, false);
    let plainly = decode_by(options, chunks, true);
    assert_eq!(plainly.0, decoded.0);
    assert_eq!(plainly.1.stats(), decoded.1.stats());
    assert_eq!(plainly.1.at_boundary(), decoded.1.at_boundary());
    assert_eq!(plainly.2, decoded.2);
    decoded
}

fn decode_by(
    options: Options,
    chunks: &[&[u8]],
    plain_first: bool,
) -> (Collector, SseParser<Vec<u8>>, Option<Error<Infallible>>) {
    let mut parser = SseParser::new(options);
    let mut collector = Collector::default();
    for chunk in chunks {
        let mut rest = *chunk;
        while plain_first && let Some((block, used)) = parser.feed_plain(rest) {
            assert_eq!(collector.event(block), Ok(Flow::Continue));
            rest = &rest[used..];
        }
        match parser.feed(rest, &mut collector) {
            Ok(used) => assert_eq!(used, rest.len()),
            Err(error) => return (collector, parser, Some(error)),
        }
    }
    let error = parser.close(&mut collector).err();
    (collector, parser, error)
}

#[test]
fn plain_events_of_every_length_are_told_apart_from_others() {
    let heads = [
        ("", true),
        ("event: ping\n", true),
        ("event: \u{e9}\r\n", true),
        ("event: ping\r", false),
        ("event: a\nevent: b\n", false),
        ("id: 1\n", false),
        (": comment\n", false),
    ];
    let ends = [
        ("\n\n", true),
        ("\r\n\r\n", true),
        ("\r\r", false),
        ("\n\r\n", false),
        ("\r\n\n", false),
        ("\ndata: more\n\n", false),
        ("\n", false),
        ("", true), // the line goes on in what follows
    ];
    let first = b"data: first\n\n"; // so that no byte order mark is near
    for len in (0..200).chain((1..20).flat_map(|blocks| blocks * 64 - 24..blocks * 64 + 2)) {
        for ((head, is_head), (end, is_end)) in heads.iter().flat_map(|h| ends.map(|e| (h, e))) {
            for odd in [&b""[..], "\u{1f680}".as_bytes(), b"\xff", b"\0"] {
                let mut event = [head.as_bytes(), b"data: ", &vec![b'x'; len]].concat();
                event.extend([odd, end.as_bytes()].concat());
                let size = event.len();
                // What follows must not be taken for a part of it, nor be passed over.
                let after = "data: \u{e9}\n\n".as_bytes();
                let together = [&event, after].concat();
                for max_event_bytes in [8 << 20, size, size - 1, size.saturating_sub(2), size / 2] {
                    let options = Options { max_event_bytes, ..OPTIONS };
                    let whole = decode(options, &[first, &together]);
                    let cut = decode(options, &[first, &event, after]);
                    assert_eq!(cut.0, whole.0, "{head:?} {len} {odd:?} {end:?}");
                    assert_eq!(cut.1.stats(), whole.1.stats());
                    assert_eq!(cut.2, whole.2);
                }
                let mut parser = SseParser::<Vec<u8>>::new(OPTIONS);
                parser.feed(first, &mut Collector::default()).expect("no limit is near");
                let found = parser.feed_plain(&together).is_some();
                let is_plain = *is_head && is_end;
                assert!(is_plain || !found, "{head:?} {len} {odd:?} {end:?}");
                if together.len() >= 64 && size < 1000 {
                    assert_eq!(found, is_plain, "{head:?} {len} {odd:?} {end:?}");
                }
            }
        }
    }
}

#[test]
fn plain_event_after_a_cr_leaves_the_line_ends_around_it_alone() {
    // Here every empty line is an event, and so is the LF, which ends no CRLF.
    let options = Options { profile: Profile::Openai, ..OPTIONS };
    let event = [&b"data: "[..], &[b'x'; 80], b"\n\n"].concat();
    for lines in ["id: 1\n\n", "id: 1\r\r", "id: 1\r\n\r\n"] {
        let (got, ..) = decode(options, &[lines.as_bytes(), &event, b"\n"]);
        assert_eq!(got.events.len(), 3, "{lines:?}");
    }
}

#[test]
fn vectors_hold_at_every_cut() {
    for vector in load("sse") {
        let bytes = input(&vector);
        for chunks in fragmentations(&bytes) {
            let (got, parser, error) = decode(OPTIONS, &chunks);
            assert_eq!(error, None, "{}", vector["name"]);
            assert_eq!(Value::from(got.events), vector["events"], "{}", vector["name"]);
            assert_eq!(Value::from(got.last_event_id), vector["last_event_id"]);
            assert_eq!(got.torn.is_some(), vector["torn"], "{}", vector["name"]);
            assert_eq!(parser.stats().bytes, bytes.len() as u64);
            if let Some(time) = vector["reconnection_time"].as_u64() {
                assert_eq!(parser.reconnection_time_ms(), Some(time.min(MAX_RETRY)));
            }
        }
    }
}

#[test]
fn events_come_out_with_the_byte_that_completes_them() {
    for vector in load("sse") {
        let bytes = input(&vector);
        let mut parser = SseParser::new(OPTIONS);
        let mut collector = Collector::default();
        let mut ready = Vec::new();
        for (at, byte) in bytes.chunks(1).enumerate() {
            parser.feed(byte, &mut collector).expect("no limit is near");
            ready.resize(collector.events.len(), at as u64 + 1);
        }
        assert_eq!(Value::from(ready), vector["ready"], "{}", vector["name"]);
    }
}

#[test]
fn torn_tail_is_told_again_exactly_at_every_cut() {
    for vector in load("sse") {
        let bytes = input(&vector);
        for keep_wire in [false, true] {
            let whole = decode(Options { keep_wire, ..OPTIONS }, &[&bytes]);
            if let Some(tail) = &whole.0.torn {
                assert!(bytes.ends_with(tail), "{}", vector["name"]);
            }
            for chunks in fragmentations(&bytes) {
                let cut = decode(Options { keep_wire, ..OPTIONS }, &chunks);
                assert_eq!(cut.0, whole.0, "{}", vector["name"]);
                assert_eq!(cut.1.stats(), whole.1.stats(), "{}", vector["name"]);
            }
        }
    }
}

#[test]
fn every_limit_fails_at_the_same_offset_at_every_cut() {
    for vector in load("sse").iter().filter(|vector| input(vector).len() < 80) {
        let bytes = input(vector);
        for max_event_bytes in 1..24 {
            for (skip_oversize, keep_wire) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let options = Options { max_event_bytes, skip_oversize, keep_wire, ..OPTIONS };
                let whole = decode(options, &[&bytes]);
                for chunks in fragmentations(&bytes) {
                    let cut = decode(options, &chunks);
                    let name = &vector["name"];
                    assert_eq!(cut.2, whole.2, "{name} {options:?}");
                    assert_eq!(cut.0, whole.0, "{name} {options:?}");
                    assert_eq!(cut.1.stats(), whole.1.stats(), "{name} {options:?} {chunks:?}");
                }
            }
        }
    }
}

#[test]
fn wires_are_the_blocks_as_they_came() {
    let bytes = b": hi\r\ndata: a\r\nid: 1\r\n\r\n\n:x\ndata: b\n:y\n\r";
    for chunks in fragmentations(bytes) {
        let (got, ..) = decode(Options { keep_wire: true, ..OPTIONS }, &chunks);
        // The LF after a dispatching CR is in no block: it may come later.
        assert_eq!(got.wires[0], b": hi\r\ndata: a\r\nid: 1\r\n\r");
        assert_eq!(got.wires[1], b":x\ndata: b\n:y\n\r");
    }
}

/// Stops after each event, as a pull iterator does.
struct OneByOne(usize);

impl Sink<Vec<u8>> for OneByOne {
    type Error = Infallible;

    fn commit_id(&mut self, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_id(&self) -> bool {
        true
    }

    fn event(&mut self, _: Block<'_, Vec<u8>>) -> Result<Flow, Infallible> {
        self.0 += 1;
        Ok(Flow::Stop)
    }
}

#[test]
fn a_sink_that_stops_leaves_the_rest_of_the_chunk() {
    let bytes = b"data: a\r\n\r\ndata: b\n\n\ndata: c";
    let mut parser = SseParser::<Vec<u8>>::new(OPTIONS);
    let mut sink = OneByOne(0);
    let first = parser.feed(bytes, &mut sink).expect("well-formed");
    assert_eq!((first, sink.0, parser.stats().bytes), (11, 1, 11));
    let second = parser.feed(&bytes[11..], &mut sink).expect("well-formed");
    assert_eq!((second, sink.0), (9, 2));
    assert_eq!(parser.feed(&bytes[20..], &mut sink), Ok(8));
    assert_eq!((parser.pending_bytes(), parser.at_boundary()), (7, false));
}

#[test]
fn a_sink_that_stops_is_left_at_each_empty_line_that_is_an_event() {
    let bytes = b"\r\n:c\n\r\ndata: a\n\n\n";
    let options = Options { profile: Profile::Openai, ..OPTIONS };
    let mut parser = SseParser::<Vec<u8>>::new(options);
    let mut sink = OneByOne(0);
    let mut ends = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        at += parser.feed(&bytes[at..], &mut sink).expect("well-formed");
        ends.push(at);
    }
    assert_eq!((ends, sink.0), (vec![2, 7, 16, 17], 4));
}

/// Offset and data, under a profile, at every cut, with and without the bytes kept.
fn offsets_and_data(profile: Profile, bytes: &[u8]) -> Vec<(u64, String)> {
    let options = Options { profile, flush_torn: profile.flushes_torn(), ..OPTIONS };
    let (whole, parser, _) = decode(options, &[bytes]);
    for keep_wire in [false, true] {
        for chunks in fragmentations(bytes) {
            let (got, cut, error) = decode(Options { keep_wire, ..options }, &chunks);
            assert_eq!((&got.events, error), (&whole.events, None), "{profile:?} {chunks:?}");
            assert_eq!((&got.offsets, got.torn), (&whole.offsets, whole.torn.clone()));
            assert_eq!(cut.stats(), parser.stats(), "{profile:?} {chunks:?}");
            assert_eq!(got.wires.len(), if keep_wire { got.offsets.len() } else { 0 });
        }
    }
    assert_eq!(parser.stats().events, whole.events.len() as u64);
    let data = whole.events.iter().map(|event| event["data"].as_str().expect("text").to_owned());
    whole.offsets.into_iter().zip(data).collect()
}

#[test]
fn blocks_without_data_are_events_as_the_profile_says() {
    let nothing: &[u64] = &[];
    // Where an empty event begins: under no rule, with any field, with any value.
    for (bytes, with_field, with_value) in [
        (&b"\n\n:c\n\n"[..], nothing, nothing),
        (b"event: x\n\n", &[0], &[0]),
        (b"event\n\n", &[0], nothing),
        (b"event: x\nevent:\n\n", &[0], nothing),
        (b"retry: 0\n\n", &[0], &[0]),
        (b"retry: +1\nretry\nid: \0\nx: y\n\n", nothing, nothing),
        (b"id\n\n\n", &[0], nothing),
        (b"id: 1\n\n\n:c\n\r\nx\n\nid:\n\n\n", &[0, 16], &[0, 7, 11, 13]),
    ] {
        for profile in Profile::ALL {
            let expected = match profile {
                Profile::Httpx2 => with_field,
                Profile::HttpxSse | Profile::Openai | Profile::Anthropic => with_value,
                Profile::Whatwg | Profile::SseclientPy => nothing,
            };
            let got = offsets_and_data(profile, bytes);
            let expected: Vec<_> = expected.iter().map(|&at| (at, String::new())).collect();
            assert_eq!(got, expected, "{profile:?} {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn vectors_differ_between_profiles_in_what_has_no_data_alone() {
    for vector in load("sse") {
        let bytes = input(&vector);
        let standard = decode(OPTIONS, &[&bytes]);
        for profile in Profile::ALL {
            let options = Options { profile, ..OPTIONS };
            let whole = decode(options, &[&bytes]);
            for chunks in fragmentations(&bytes) {
                let cut = decode(options, &chunks);
                assert_eq!(cut.0, whole.0, "{} {profile:?}", vector["name"]);
                assert_eq!(cut.1.stats(), whole.1.stats(), "{} {profile:?}", vector["name"]);
            }
            let with_data = |events: &[Value]| -> Vec<Value> {
                events.iter().filter(|event| event["data"] != "").cloned().collect()
            };
            assert_eq!(with_data(&whole.0.events), with_data(&standard.0.events));
            assert_eq!(whole.0.torn, standard.0.torn);
            assert_eq!(whole.1.stats().empty_blocks, standard.1.stats().empty_blocks);
        }
    }
}

#[test]
fn sentinel_is_the_whole_payload() {
    assert!(is_done(b"[DONE]") && is_done(b" \t[DONE]\r\n"));
    assert!(!is_done(b"[DONE] is a word") && !is_done(b"[done]") && !is_done(b""));
}
