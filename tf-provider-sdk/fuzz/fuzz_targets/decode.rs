//! Input: the JSON of a type, a newline, and bytes to read as a value of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tf_provider_sdk::{json, msgpack, types::Type};

fuzz_target!(|input: &[u8]| {
    let Some(at) = input.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (ty, bytes) = (&input[..at], &input[at + 1..]);
    let Ok(ty) = Type::from_json(ty) else {
        return;
    };
    if let Ok(value) = msgpack::decode(bytes, &ty) {
        let written = msgpack::encode(&value, &ty).expect("what was read can be written");
        let again = msgpack::decode(&written, &ty).expect("what was written can be read");
        assert!(again.equals(&value, &ty));
    }
    if let Ok(value) = json::decode_lenient(bytes, &ty) {
        let written = json::encode(&value, &ty).expect("what was read can be written");
        let again = json::decode(&written, &ty).expect("what was written can be read");
        assert!(again.equals(&value, &ty));
    }
});
