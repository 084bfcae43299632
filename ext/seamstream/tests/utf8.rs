//! The UTF-8 vectors, at every cut.

mod common;

use common::{fragmentations, input, load};
use seamstream::utf8::{Errors, Reason, Utf8Decoder, count_replaced};

fn decode(chunks: &[&[u8]], skip_bom: bool) -> (String, u64) {
    let mut decoder = Utf8Decoder::new(Errors::Replace, skip_bom);
    let mut text = String::new();
    for chunk in chunks {
        text += &decoder.decode(chunk, false).expect("replacement never fails");
    }
    text += &decoder.decode(b"", true).expect("replacement never fails");
    (text, decoder.replaced())
}

#[test]
fn vectors_hold_at_every_cut() {
    for vector in load("utf8") {
        let bytes = input(&vector);
        for chunks in fragmentations(&bytes) {
            let (text, replaced) = decode(&chunks, false);
            assert_eq!(text, vector["text"], "{}", vector["name"]);
            assert_eq!(replaced, count_replaced(&bytes), "{}", vector["name"]);
            assert_eq!(decode(&chunks, true).0, vector["text_without_bom"], "{}", vector["name"]);
        }
    }
}

#[test]
fn strict_fails_at_the_same_offset_at_every_cut() {
    let bytes = b"ab\xe2\x82\xac\xf0\x9f\x9a!";
    for chunks in fragmentations(bytes) {
        let mut decoder = Utf8Decoder::new(Errors::Strict, false);
        let error = chunks
            .iter()
            .find_map(|chunk| decoder.decode(chunk, false).err())
            .expect("the input is ill-formed");
        assert_eq!(error.offset, 5);
        assert_eq!(error.bytes(), b"\xf0\x9f\x9a");
        assert_eq!(error.reason, Reason::InvalidContinuation);
    }
}

#[test]
fn strict_failure_leaves_the_decoder_as_it_was() {
    let mut decoder = Utf8Decoder::new(Errors::Strict, false);
    assert_eq!(decoder.decode(b"\xe2\x82", false).as_deref(), Ok(""));
    assert!(decoder.decode(b"x", false).is_err());
    assert_eq!(decoder.decode(b"\xac", false).as_deref(), Ok("€"));
    let error = decoder.decode(b"\xc3", true).expect_err("unfinished");
    assert_eq!((error.offset, error.reason), (3, Reason::UnexpectedEnd));
}

#[test]
fn a_sent_replacement_character_does_not_count() {
    assert_eq!(count_replaced("\u{fffd}".as_bytes()), 0);
    assert_eq!(count_replaced(b"\xef\xbf\xbd\xff\xc3"), 2);
}
