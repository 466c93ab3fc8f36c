//! No input makes a decoder panic, recurse without end, or take memory out of proportion.
//!
//! Random bytes and mutations of the golden vectors, for `LOOMPLANE_FUZZ_SECONDS` (2 unless set) each, from `LOOMPLANE_FUZZ_SEED`. A binary
//! of its own whose tests take turns, since it counts every allocation of the process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

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

/// Reads an input as msgpack; what was read is written and read again. Whether it is a value.
fn check_msgpack(input: &[u8], ty: &Type) -> bool {
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
    read.is_ok()
}

/// Reads an input as state JSON, strictly and leniently; what was read is written and read again. Whether it is a value.
fn check_json(input: &[u8], ty: &Type) -> bool {
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
    lenient.is_ok()
}

/// Reads an input as a type, and as a number. Whether it is a type; one that was read is written and read again.
fn check_type(input: &[u8]) -> bool {
    let read = within_allowance("type", input, || Type::from_json(input));
    if let Ok(ty) = &read {
        let again = Type::from_json(&ty.to_json()).expect("what was written can be read");
        assert_eq!(again, *ty, "{input:02x?}");
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let number = within_allowance("number", input, || text.parse::<Number>());
        if let Ok(number) = number {
            let again: Number = number
                .to_string()
                .parse()
                .expect("what was written can be read");
            assert_eq!(again, number, "{text:?}");
        }
    }
    read.is_ok()
}

/// Reads an input every way.
fn check(input: &[u8], ty: &Type) {
    check_msgpack(input, ty);
    check_json(input, ty);
    check_type(input);
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

/// Types, and values of them in both forms: the golden vectors.
struct Golden {
    types: Vec<Type>,
    msgpacks: Vec<Vec<u8>>,
    jsons: Vec<Vec<u8>>,
}

fn golden() -> Golden {
    let file: Json = serde_json::from_str(include_str!("data/cty-msgpack.json")).unwrap();
    let mut golden = Golden {
        types: Vec::new(),
        msgpacks: Vec::new(),
        jsons: Vec::new(),
    };
    for vector in ["vectors", "malformed"]
        .iter()
        .flat_map(|list| file[list].as_array().unwrap())
    {
        let ty = Type::from_json(vector["type"].to_string().as_bytes()).unwrap();
        golden.types.push(ty);
        let msgpack = vector["msgpack"].as_str().unwrap();
        golden.msgpacks.push(bytes_of_hex(msgpack));
        let json = vector.get("json").map(Json::to_string).unwrap_or_default();
        golden.jsons.push(json.into_bytes());
    }
    golden
}

/// One at a time: the allowance is the whole process's.
static TURN: Mutex<()> = Mutex::new(());

/// Checks inputs for as long as asked, mostly seeds with damage; `check` is told which seed it was, and says whether it was read.
fn fuzz(
    seeds: &[Vec<u8>],
    parts: &[&[u8]],
    mut check: impl FnMut(&mut Random, &[u8], usize) -> bool,
) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = setting("LOOMPLANE_FUZZ_SEED", 1);
    let mut random = Random(seed);
    let until = Instant::now() + Duration::from_secs(setting("LOOMPLANE_FUZZ_SECONDS", 2));
    let (mut inputs, mut read) = (0_u64, 0_u64);
    while Instant::now() < until {
        for _ in 0..100 {
            let at = random.below(seeds.len());
            let input = match random.below(9) {
                0 => random.bytes(64),
                _ => mutated(&mut random, &seeds[at], seeds, parts),
            };
            read += u64::from(check(&mut random, &input, at));
            inputs += 1;
        }
    }
    println!("seed {seed}: {inputs} inputs, {read} of them read");
    assert!(read > 0, "no input got past the first byte");
}

/// Mostly the type that the seed is of: with another, little is read.
fn type_for<'a>(random: &mut Random, types: &'a [Type], at: usize) -> &'a Type {
    match random.below(4) {
        0 => random.pick(types),
        _ => &types[at],
    }
}

#[test]
fn fuzz_msgpack() {
    let Golden {
        types, msgpacks, ..
    } = golden();
    fuzz(&msgpacks, MSGPACK_PARTS, |random, input, at| {
        check_msgpack(input, type_for(random, &types, at))
    });
}

#[test]
fn fuzz_state_json() {
    let Golden { types, jsons, .. } = golden();
    fuzz(&jsons, JSON_PARTS, |random, input, at| {
        check_json(input, type_for(random, &types, at))
    });
}

#[test]
fn fuzz_types_and_numbers() {
    let mut seeds: Vec<Vec<u8>> = golden().types.iter().map(Type::to_json).collect();
    let numbers = ["0", "-1", "18446744073709551616", "0.1", "1e400", "-1.5e-7"];
    seeds.extend(numbers.iter().map(|number| number.as_bytes().to_vec()));
    fuzz(&seeds, JSON_PARTS, |_, input, _| check_type(input));
}

#[test]
fn no_input_is_too_much() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    nasty(&(0..100).fold(Type::Dynamic, |ty, _| Type::list(ty)));
}
