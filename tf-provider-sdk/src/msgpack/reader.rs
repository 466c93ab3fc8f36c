//! The parts of msgpack, read from a slice.

use crate::value::DecodeError;

/// One item. Of arrays and maps only the header: their items follow.
pub(super) enum Item<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Text, or bytes in its place.
    Text(&'a [u8]),
    /// How many items follow.
    Array(usize),
    /// How many pairs of items follow.
    Map(usize),
    /// An extension: its type and payload.
    Ext(u8, &'a [u8]),
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next item. A header that promises more than the input can hold is refused here.
    pub(super) fn item(&mut self) -> Result<Item<'a>, DecodeError> {
        let [marker] = self.array()?;
        Ok(match marker {
            0x00..=0x7f => Item::Uint(marker.into()),
            0x80..=0x8f => Item::Map(self.count((marker & 0x0f).into(), 2)?),
            0x90..=0x9f => Item::Array(self.count((marker & 0x0f).into(), 1)?),
            0xa0..=0xbf => Item::Text(self.take((marker & 0x1f).into())?),
            0xc0 => Item::Nil,
            0xc1 => {
                return Err(DecodeError::new(
                    "the msgpack is malformed: 0xc1 begins nothing",
                ));
            }
            0xc2 => Item::Bool(false),
            0xc3 => Item::Bool(true),
            0xc4 | 0xd9 => self.text(1)?,
            0xc5 | 0xda => self.text(2)?,
            0xc6 | 0xdb => self.text(4)?,
            0xc7 => self.ext(1)?,
            0xc8 => self.ext(2)?,
            0xc9 => self.ext(4)?,
            0xca => Item::Float(f32::from_be_bytes(self.array()?).into()),
            0xcb => Item::Float(f64::from_be_bytes(self.array()?)),
            0xcc => Item::Uint(self.uint(1)?),
            0xcd => Item::Uint(self.uint(2)?),
            0xce => Item::Uint(self.uint(4)?),
            0xcf => Item::Uint(self.uint(8)?),
            0xd0 => Item::Int(i8::from_be_bytes(self.array()?).into()),
            0xd1 => Item::Int(i16::from_be_bytes(self.array()?).into()),
            0xd2 => Item::Int(i32::from_be_bytes(self.array()?).into()),
            0xd3 => Item::Int(i64::from_be_bytes(self.array()?)),
            0xd4..=0xd8 => self.ext_of(1 << (marker - 0xd4))?,
            0xdc => {
                let count = self.uint(2)?;
                Item::Array(self.count(count, 1)?)
            }
            0xdd => {
                let count = self.uint(4)?;
                Item::Array(self.count(count, 1)?)
            }
            0xde => {
                let count = self.uint(2)?;
                Item::Map(self.count(count, 2)?)
            }
            0xdf => {
                let count = self.uint(4)?;
                Item::Map(self.count(count, 2)?)
            }
            0xe0..=0xff => Item::Int(i8::from_be_bytes([marker]).into()),
        })
    }

    /// Skips an item and whatever it holds.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
        // A count instead of recursion: it can't overflow, since each header was checked against what is left.
        let mut left: usize = 1;
        while left > 0 {
            left -= 1;
            left = left.saturating_add(match self.item()? {
                Item::Array(count) => count,
                Item::Map(count) => count.saturating_mul(2),
                _ => 0,
            });
        }
        Ok(())
    }

    fn text(&mut self, width: usize) -> Result<Item<'a>, DecodeError> {
        let length = self.uint(width)?;
        Ok(Item::Text(self.take(length)?))
    }

    fn ext(&mut self, width: usize) -> Result<Item<'a>, DecodeError> {
        let length = self.uint(width)?;
        self.ext_of(length)
    }

    fn ext_of(&mut self, length: u64) -> Result<Item<'a>, DecodeError> {
        let [code] = self.array()?;
        Ok(Item::Ext(code, self.take(length)?))
    }

    /// A count of items of which each takes at least `size` bytes.
    fn count(&self, count: u64, size: usize) -> Result<usize, DecodeError> {
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() / size => Ok(count),
            _ => Err(truncated()),
        }
    }

    fn uint(&mut self, width: usize) -> Result<u64, DecodeError> {
        let bytes = self.take(u64::try_from(width).unwrap_or(u64::MAX))?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| truncated())?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn truncated() -> DecodeError {
    DecodeError::new("the msgpack ends too early")
}
