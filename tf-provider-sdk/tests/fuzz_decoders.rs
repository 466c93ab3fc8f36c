//! No input makes a decoder panic, recurse without end, or take memory out of proportion.
//!
//! Random bytes and mutations of the golden vectors, for `FUZZ_SECONDS` (2 unless set) from `FUZZ_SEED`. A binary of its own with one test,
//! since it counts every allocation of the process.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use serde_json::Value as Json;
use tf_provider_sdk::{json, msgpack, number::Number, types::Type, value::Value};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most that reading may take at once. A map of one entry costs a whole node (11 places for a key and a value), which is
/// four bytes of msgpack; beside that, room for some elements is made on each of 200 levels.
fn allowance(input: usize) -> usize {
    400 * input + 200 * 64 * size_of::<Value>() + 16 * 1024
}

/// SplitMix64: enough to choose bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }
}

/// Markers, lengths and tokens that lead deeper than random bytes would.
const MSGPACK_PARTS: &[&[u8]] = &[
    &[0x91],
    &[0x92],
    &[0x81],
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdc, 0xff, 0xff],
    &[0xdf, 0xff, 0xff, 0xff, 0xff],
    &[0xde, 0x7f, 0xff],
    &[0xc6, 0xff, 0xff, 0xff, 0xff],
    &[0xdb, 0xff, 0xff, 0xff, 0xff],
    &[0xc9, 0xff, 0xff, 0xff, 0xff],
    &[0xc1],
    &[0xc0],
    &[0xd4, 0, 0],
    &[0xc7, 3, 12, 0x81, 1, 0xc2],
    &[0xc7, 11, 12],
    &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
    b"\x92\xc4\x09\"dynamic\"",
    b"\xc4\x12[\"list\",\"dynamic\"]",
    b"\xac1e1000000000",
    b"\xa61e-999",
];
const JSON_PARTS: &[&[u8]] = &[
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\"",
    b"\\u",
    b"\\ud800",
    b"null",
    b"true",
    b"1e1000000000",
    b"-0",
    b"1e-400",
    b"{\"value\":",
    b"\"type\":",
    b"{\"type\":\"dynamic\",\"value\":",
    b"[\"list\",",
    b"[\"object\",{\"a\":",
    b"\xff",
    b"\x00",
];

fn mutated(random: &mut Random, seed: &[u8], others: &[Vec<u8>], parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => {
                let part = *random.pick(parts);
                let times = if random.below(8) == 0 {
                    random.below(3_000)
                } else {
                    1
                };
                bytes.splice(at..at, part.repeat(times));
            }
            4 => {
                let other = random.pick(others);
                let from = random.below(other.len());
                bytes.splice(at..at, other[from..].iter().copied());
            }
            5 => {
                let end = at + random.below(bytes.len() - at + 1);
                bytes.drain(at..end);
            }
            _ => {
                let random_bytes = random.bytes(8);
                bytes.splice(at..at, random_bytes);
            }
        }
    }
    bytes
}

/// Runs a decoder on an input and judges what it took.
fn within_allowance<T>(name: &str, input: &[u8], read: impl FnOnce() -> T) -> T {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let answer = read();
    let took = MEMORY.peak_usage().saturating_sub(before);
    assert!(
        took <= allowance(input.len()),
        "{name}: {took} bytes for an input of {}: {input:02x?}",
        input.len()
    );
    answer
}

/// Reads an input every way; what was read is written and read again.
fn check(input: &[u8], ty: &Type) -> bool {
    let read = within_allowance("msgpack", input, || msgpack::decode(input, ty));
    if let Ok(value) = &read {
        let written = msgpack::encode(value, ty)
            .unwrap_or_else(|error| panic!("{error}: {input:02x?} as {ty}"));
        let again = msgpack::decode(&written, ty)
            .unwrap_or_else(|error| panic!("{error}: {input:02x?} as {ty}"));
        assert!(
            again.equals(value, ty),
            "{input:02x?} as {ty}: {value:?} became {again:?}"
        );
    }
    let strict = within_allowance("json", input, || json::decode(input, ty));
    let lenient = within_allowance("lenient json", input, || json::decode_lenient(input, ty));
    if let Ok(value) = &strict {
        assert_eq!(lenient.as_ref(), Ok(value), "{input:02x?} as {ty}");
    }
    if let Ok(value) = &lenient {
        let written =
            json::encode(value, ty).unwrap_or_else(|error| panic!("{error}: {input:02x?} as {ty}"));
        let again = json::decode(&written, ty)
            .unwrap_or_else(|error| panic!("{error}: {input:02x?} as {ty}"));
        assert!(
            again.equals(value, ty),
            "{input:02x?} as {ty}: {value:?} became {again:?}"
        );
    }
    let _ = within_allowance("type", input, || {
        Type::from_json(input).map(|ty| ty.to_json())
    });
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = within_allowance("number", input, || {
            text.parse::<Number>().map(|number| number.to_string())
        });
    }
    read.is_ok() || lenient.is_ok()
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// What go-cty dies of, and more of the kind.
fn nasty(deep: &Type) {
    for ty in [
        deep,
        &Type::Dynamic,
        &Type::String,
        &Type::map(Type::Dynamic),
        &Type::list(Type::list(Type::Bool)),
    ] {
        for part in MSGPACK_PARTS.iter().chain(JSON_PARTS) {
            for times in [1, 2, 1_000, 100_000] {
                check(&part.repeat(times), ty);
            }
        }
        check(&vec![0xdd; 1_000_000], ty);
    }
}

#[test]
fn no_input_is_too_much() {
    let file: Json = serde_json::from_str(include_str!("data/cty-msgpack.json")).unwrap();
    let (mut types, mut msgpacks, mut jsons) = (Vec::new(), Vec::new(), Vec::new());
    for vector in ["vectors", "malformed"]
        .iter()
        .flat_map(|list| file[list].as_array().unwrap())
    {
        types.push(Type::from_json(vector["type"].to_string().as_bytes()).unwrap());
        msgpacks.push(bytes_of_hex(vector["msgpack"].as_str().unwrap()));
        jsons.push(
            vector
                .get("json")
                .map(Json::to_string)
                .unwrap_or_default()
                .into_bytes(),
        );
    }
    let deep = (0..100).fold(Type::Dynamic, |ty, _| Type::list(ty));
    nasty(&deep);
    types.push(deep);

    let seed = setting("FUZZ_SEED", 1);
    let mut random = Random(seed);
    let until = Instant::now() + Duration::from_secs(setting("FUZZ_SECONDS", 2));
    let (mut inputs, mut read) = (0_u64, 0_u64);
    while Instant::now() < until {
        for _ in 0..100 {
            let at = random.below(msgpacks.len());
            // Mostly the type that the vector is of: with another, little is read.
            let ty = if random.below(4) == 0 {
                random.pick(&types)
            } else {
                &types[at]
            };
            let input = match random.below(9) {
                0 => random.bytes(64),
                1..=4 => mutated(&mut random, &msgpacks[at], &msgpacks, MSGPACK_PARTS),
                _ => mutated(&mut random, &jsons[at], &jsons, JSON_PARTS),
            };
            read += u64::from(check(&input, ty));
            inputs += 1;
        }
    }
    println!("seed {seed}: {inputs} inputs, {read} of them read as a value");
    assert!(read > 0, "no input got past the first byte");
}
