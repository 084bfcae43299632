//! The vector files, and the ways to cut an input.

use serde_json::Value;

/// The vectors of one file of `tests/vectors` at the top of the repository.
pub fn load(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the vectors are part of the repository");
    let mut file: Value = serde_json::from_str(&text).expect("a vector file is JSON");
    let Value::Array(vectors) = file["vectors"].take() else { panic!("no vectors in {name}") };
    assert!(vectors.len() > 100, "{name} has been cut");
    vectors
}

/// The bytes of a vector.
pub fn input(vector: &Value) -> Vec<u8> {
    let hex = vector["input"].as_str().expect("input is hex");
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("input is hex"))
        .collect()
}

/// Whole, in two at every byte, byte by byte, and with empty chunks between.
pub fn fragmentations(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut all = vec![vec![bytes], bytes.chunks(1).collect()];
    all.extend((0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
    all.push(bytes.chunks(1).flat_map(|byte| [&[][..], byte, &[][..]]).collect());
    all
}
