//! The parts of msgpack, written in the shortest form, as Terraform does.

/// Lengths above `u32::MAX` can't be written: `None`.
type Written = Option<()>;

#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn nil(&mut self) {
        self.bytes.push(0xc0);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.bytes.push(if value { 0xc3 } else { 0xc2 });
    }

    pub(super) fn int(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            return self.uint(value);
        }
        match value {
            -32..0 => self.bytes.extend((value as i8).to_be_bytes()),
            _ if i8::try_from(value).is_ok() => self.marked(0xd0, &(value as i8).to_be_bytes()),
            _ if i16::try_from(value).is_ok() => self.marked(0xd1, &(value as i16).to_be_bytes()),
            _ if i32::try_from(value).is_ok() => self.marked(0xd2, &(value as i32).to_be_bytes()),
            _ => self.marked(0xd3, &value.to_be_bytes()),
        }
    }

    pub(super) fn uint(&mut self, value: u64) {
        if let Ok(small) = u8::try_from(value) {
            match small {
                0..=0x7f => self.bytes.push(small),
                _ => self.marked(0xcc, &[small]),
            }
        } else if let Ok(value) = u16::try_from(value) {
            self.marked(0xcd, &value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.marked(0xce, &value.to_be_bytes());
        } else {
            self.marked(0xcf, &value.to_be_bytes());
        }
    }

    pub(super) fn float(&mut self, value: f64) {
        self.marked(0xcb, &value.to_be_bytes());
    }

    pub(super) fn string(&mut self, text: &str) -> Written {
        self.header(text.len(), Some((0xa0, 31)), Some(0xd9), 0xda, 0xdb)?;
        self.bytes.extend(text.as_bytes());
        Some(())
    }

    pub(super) fn bin(&mut self, bytes: &[u8]) -> Written {
        self.header(bytes.len(), None, Some(0xc4), 0xc5, 0xc6)?;
        self.bytes.extend(bytes);
        Some(())
    }

    pub(super) fn array(&mut self, length: usize) -> Written {
        self.header(length, Some((0x90, 15)), None, 0xdc, 0xdd)
    }

    pub(super) fn map(&mut self, length: usize) -> Written {
        self.header(length, Some((0x80, 15)), None, 0xde, 0xdf)
    }

    /// An unknown value of which nothing is known.
    pub(super) fn unknown(&mut self) {
        self.bytes.extend([0xd4, 0, 0]);
    }

    /// An extension with its length in front, whatever that is: as Terraform writes refinements.
    pub(super) fn ext(&mut self, code: u8, payload: &[u8]) -> Written {
        self.header(payload.len(), None, Some(0xc7), 0xc8, 0xc9)?;
        self.bytes.push(code);
        self.bytes.extend(payload);
        Some(())
    }

    fn marked(&mut self, marker: u8, bytes: &[u8]) {
        self.bytes.push(marker);
        self.bytes.extend(bytes);
    }

    /// A length in the shortest form: within the marker, or behind it in 1, 2 or 4 bytes.
    fn header(
        &mut self,
        length: usize,
        within: Option<(u8, u8)>,
        one: Option<u8>,
        two: u8,
        four: u8,
    ) -> Written {
        match (u8::try_from(length), within, one) {
            (Ok(length), Some((marker, most)), _) if length <= most => {
                self.bytes.push(marker | length)
            }
            (Ok(length), _, Some(marker)) => self.marked(marker, &[length]),
            _ => match u16::try_from(length) {
                Ok(length) => self.marked(two, &length.to_be_bytes()),
                Err(_) => self.marked(four, &u32::try_from(length).ok()?.to_be_bytes()),
            },
        }
        Some(())
    }
}
