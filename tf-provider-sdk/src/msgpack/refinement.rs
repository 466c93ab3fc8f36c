//! What is known of an unknown value, in the payload of its extension.

use super::{
    reader::{Item, Reader},
    writer::Writer,
};
use crate::{
    msgpack::{decode, encode},
    value::{Bound, DecodeError, Refinement, normalized},
};

/// Longer payloads are refused by Terraform; ours say less instead.
const MAX_PAYLOAD: usize = 1_024;
/// Terraform cuts longer prefixes.
const MAX_PREFIX: usize = 256;
/// Longer bounds are left out, so that a prefix or two bounds always fit. The longest whole float has 309 digits.
const MAX_BOUND: usize = 330;

const NULLNESS: u64 = 1;
const PREFIX: u64 = 2;
const MIN: u64 = 3;
const MAX: u64 = 4;
const MIN_LENGTH: u64 = 5;
const MAX_LENGTH: u64 = 6;

/// What a payload says: that the value is null after all, or something of what it will be.
pub(super) enum Known {
    Null,
    Refined(Refinement),
}

/// The payload of a refinement, at most as long as Terraform reads.
pub(crate) fn bytes(refinement: &Refinement) -> Vec<u8> {
    let Refinement {
        not_null,
        prefix,
        min,
        max,
        min_length,
        max_length,
    } = refinement;
    // Numbers of any length are allowed, so what makes the payload too long is left out: that only promises less.
    let fits = |bound: &&Bound| bound.number.to_string().len() <= MAX_BOUND;
    let (min, max) = (min.as_ref().filter(fits), max.as_ref().filter(fits));
    let count = [
        *not_null,
        prefix.is_some(),
        min.is_some(),
        max.is_some(),
        min_length.is_some(),
        max_length.is_some(),
    ];
    let count = count.into_iter().filter(|given| *given).count();
    let mut writer = Writer::default();
    // Nothing below is long enough to be refused by the writer.
    let _ = writer.map(count);
    if *not_null {
        writer.uint(NULLNESS);
        writer.bool(false);
    }
    if let Some(prefix) = prefix {
        writer.uint(PREFIX);
        let _ = writer.string(cut(&normalized(prefix)));
    }
    for (key, bound) in [(MIN, min), (MAX, max)] {
        if let Some(bound) = bound {
            writer.uint(key);
            let _ = writer.array(2);
            let _ = encode::number(&mut writer, &bound.number);
            writer.bool(bound.inclusive);
        }
    }
    for (key, length) in [(MIN_LENGTH, min_length), (MAX_LENGTH, max_length)] {
        if let Some(length) = length {
            writer.uint(key);
            writer.uint(*length);
        }
    }
    writer.bytes
}

/// A prefix of the prefix, short enough. Its last character goes too: what follows might have combined with it.
fn cut(prefix: &str) -> &str {
    if prefix.len() <= MAX_PREFIX {
        return prefix;
    }
    let start = &prefix[..prefix.floor_char_boundary(MAX_PREFIX)];
    start
        .char_indices()
        .next_back()
        .map_or("", |(end, _)| &start[..end])
}

/// What the payload says, for values that serde carries.
pub(crate) fn from_bytes(payload: &[u8]) -> Result<Option<Refinement>, DecodeError> {
    Ok(match read(payload)? {
        Known::Refined(refinement) if !refinement.is_empty() => Some(refinement),
        _ => None,
    })
}

/// What the payload says. Keys that are not known here are skipped: ignoring a promise is always allowed.
pub(super) fn read(payload: &[u8]) -> Result<Known, DecodeError> {
    let mut refinement = Refinement::default();
    if payload.is_empty() || payload.len() > MAX_PAYLOAD {
        return Ok(Known::Refined(refinement));
    }
    let mut reader = Reader::new(payload);
    let Item::Map(count) = reader.item()? else {
        return Err(malformed());
    };
    let mut is_null = false;
    for _ in 0..count {
        let key = match reader.item()? {
            Item::Uint(key) => key,
            Item::Int(_) => 0,
            _ => return Err(malformed()),
        };
        match key {
            NULLNESS => match reader.item()? {
                Item::Bool(null) => {
                    is_null = null;
                    refinement.not_null = !null;
                }
                _ => return Err(malformed()),
            },
            PREFIX => match reader.item()? {
                Item::Text(text) => refinement.prefix = Some(decode::text(text)?),
                _ => return Err(malformed()),
            },
            MIN => refinement.min = Some(bound(&mut reader)?),
            MAX => refinement.max = Some(bound(&mut reader)?),
            MIN_LENGTH => refinement.min_length = Some(length(&mut reader)?),
            MAX_LENGTH => refinement.max_length = Some(length(&mut reader)?),
            _ => reader.skip()?,
        }
    }
    Ok(if is_null {
        Known::Null
    } else {
        Known::Refined(refinement)
    })
}

fn bound(reader: &mut Reader<'_>) -> Result<Bound, DecodeError> {
    let Item::Array(2) = reader.item()? else {
        return Err(malformed());
    };
    let number = decode::number(reader.item()?)?.ok_or_else(malformed)?;
    match reader.item()? {
        Item::Bool(inclusive) => Ok(Bound { number, inclusive }),
        _ => Err(malformed()),
    }
}

fn length(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match reader.item()? {
        Item::Uint(length) => Ok(length),
        _ => Err(malformed()),
    }
}

fn malformed() -> DecodeError {
    DecodeError::new("what is known of the unknown value is malformed")
}
