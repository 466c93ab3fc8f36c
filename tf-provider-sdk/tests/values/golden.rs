//! What go-cty writes and reads.

use serde_json::Value as Json;
use tf_provider_sdk::{json, msgpack, types::Type, value::Value};

use crate::go;

const VECTORS: &str = include_str!("../data/cty-msgpack.json");

struct Vector {
    name: String,
    ty: Type,
    msgpack: Vec<u8>,
    /// As go-cty prints it.
    expression: Option<String>,
    /// The text of the state form: numbers keep their digits.
    json: Option<String>,
    go_cty: Option<String>,
}

/// The vectors stand one to a line, with the state form last.
fn vectors() -> Vec<Vector> {
    let lines = VECTORS.lines().filter(|line| line.starts_with("{\"name\""));
    let vectors: Vec<Vector> = lines
        .map(|line| {
            let line = line.trim_end_matches(',');
            let fields: Json = serde_json::from_str(line).unwrap();
            let text = |name: &str| fields.get(name).and_then(Json::as_str).map(str::to_owned);
            let json = line
                .split_once("\"json\": ")
                .map(|(_, json)| json[..json.len() - 1].to_owned());
            Vector {
                name: text("name").unwrap(),
                ty: Type::from_json(fields["type"].to_string().as_bytes()).unwrap(),
                msgpack: bytes(&text("msgpack").unwrap()),
                expression: text("value"),
                json,
                go_cty: text("go_cty"),
            }
        })
        .collect();
    assert_eq!(
        vectors.len(),
        97,
        "a vector was added or lost: look at the file"
    );
    vectors
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each well-formed vector with the value that it stands for.
fn well_formed() -> impl Iterator<Item = (Vector, Value)> {
    vectors().into_iter().filter_map(|vector| {
        let value = go::value(vector.expression.as_ref()?, &vector.ty);
        Some((vector, value))
    })
}

#[test]
fn msgpack_is_read_as_go_cty_means_it() {
    for (vector, value) in well_formed() {
        assert_eq!(
            msgpack::decode(&vector.msgpack, &vector.ty).as_ref(),
            Ok(&value),
            "{}",
            vector.name
        );
    }
}

#[test]
fn msgpack_is_written_byte_for_byte_as_go_cty_does() {
    for (vector, value) in well_formed() {
        let written = msgpack::encode(&value, &vector.ty).unwrap();
        assert_eq!(hex(&written), hex(&vector.msgpack), "{}", vector.name);
        let read = msgpack::decode(&vector.msgpack, &vector.ty).unwrap();
        assert_eq!(
            msgpack::encode(&read, &vector.ty).unwrap(),
            vector.msgpack,
            "{}",
            vector.name
        );
    }
}

#[test]
fn state_json_is_read_and_written_as_go_cty_does() {
    for (vector, value) in well_formed() {
        let written = json::encode(&value, &vector.ty);
        let Some(expected) = vector.json else {
            assert!(written.is_err(), "{}", vector.name);
            continue;
        };
        let written = written.unwrap();
        assert_eq!(
            json::decode(expected.as_bytes(), &vector.ty).as_ref(),
            Ok(&value),
            "{}",
            vector.name
        );
        assert_eq!(
            json::decode(&written, &vector.ty).as_ref(),
            Ok(&value),
            "{}",
            vector.name
        );
        let (written, expected): (Json, Json) = (
            serde_json::from_slice(&written).unwrap(),
            serde_json::from_str(&expected).unwrap(),
        );
        assert_eq!(written, expected, "{}", vector.name);
        // What state JSON holds, msgpack holds as well.
        assert!(value.is_wholly_known(), "{}", vector.name);
    }
}

#[test]
fn malformed_msgpack_is_an_error_or_what_go_cty_makes_of_it() {
    // Where go-cty shrugs and we don't: a string that is not one, and a message that does not end where it should.
    let stricter = ["invalid UTF-8", "trailing bytes"];
    let mut seen = 0;
    for vector in vectors() {
        let Some(go_cty) = vector.go_cty else {
            continue;
        };
        seen += 1;
        let read = msgpack::decode(&vector.msgpack, &vector.ty);
        let refused = ["error:", "panic:", "out of memory:"]
            .iter()
            .any(|answer| go_cty.starts_with(answer));
        if refused || stricter.contains(&vector.name.as_str()) {
            assert!(read.is_err(), "{}: {read:?}", vector.name);
        } else {
            assert_eq!(read, Ok(go::value(&go_cty, &vector.ty)), "{}", vector.name);
        }
    }
    assert_eq!(seen, 24);
}

#[test]
fn every_cut_of_every_vector_is_an_error() {
    for (vector, _) in well_formed() {
        for end in 0..vector.msgpack.len() {
            assert!(
                msgpack::decode(&vector.msgpack[..end], &vector.ty).is_err(),
                "{} cut at {end}",
                vector.name
            );
        }
        let json = vector.json.unwrap_or_default();
        for end in (0..json.len()).filter(|end| json.is_char_boundary(*end)) {
            // A number cut short is a number.
            if !json.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                assert!(
                    json::decode(&json.as_bytes()[..end], &vector.ty).is_err(),
                    "{} cut at {end}",
                    vector.name
                );
            }
        }
    }
}
