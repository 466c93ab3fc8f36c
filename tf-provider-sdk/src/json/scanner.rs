//! The parts of JSON, read from a slice.

use std::borrow::Cow;

use crate::value::{DecodeError, MAX_DEPTH};

pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Scanner { bytes, at: 0 }
    }

    /// What was read from `start` (an earlier [`Scanner::position`]) to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// A scanner of what this one read from `start` to here.
    pub(super) fn again(&self, start: usize) -> Self {
        Scanner {
            bytes: self.bytes.get(..self.at).unwrap_or_default(),
            at: start,
        }
    }

    /// The place of the next token.
    pub(super) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// The first byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Passes over one byte, if it is the next.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), DecodeError> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }

    /// In an array or object: goes to the next element, or past the end. `first` is whether none was read yet.
    pub(super) fn has_next(&mut self, end: u8, first: bool) -> Result<bool, DecodeError> {
        if self.eat(end) {
            return Ok(false);
        }
        if !first {
            self.expect(b',')?;
        }
        Ok(true)
    }

    pub(super) fn word(&mut self, word: &str) -> Result<(), DecodeError> {
        self.peek();
        if self
            .bytes
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word.as_bytes()))
        {
            self.at += word.len();
            return Ok(());
        }
        Err(self.malformed())
    }

    pub(super) fn bool(&mut self) -> Result<bool, DecodeError> {
        let value = self.peek() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.bytes.get(self.at) {
                None | Some(0..0x20) => return Err(self.malformed()),
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
        let text = self.since(start);
        self.at += 1;
        if escaped {
            // With its quotes, the text is a JSON document of its own.
            let text: String =
                serde_json::from_slice(self.since(start - 1)).map_err(|_| self.malformed())?;
            return Ok(text.into());
        }
        std::str::from_utf8(text)
            .map(Cow::Borrowed)
            .map_err(|_| DecodeError::new("a string must be valid UTF-8"))
    }

    /// The text of a number, which is one by JSON's rules.
    pub(super) fn number(&mut self) -> Result<&'a str, DecodeError> {
        self.peek();
        let start = self.at;
        self.skip_if(b"-");
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.skip_if(b".") {
            self.digits()?;
        }
        if self.skip_if(b"eE") {
            self.skip_if(b"+-");
            self.digits()?;
        }
        std::str::from_utf8(self.since(start)).map_err(|_| self.malformed())
    }

    fn skip_if(&mut self, any: &[u8]) -> bool {
        let found = self
            .bytes
            .get(self.at)
            .is_some_and(|byte| any.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> Result<(), DecodeError> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.malformed())
        } else {
            Ok(())
        }
    }

    /// Passes over a value, whatever it holds.
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), DecodeError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't' | b'f') => self.bool().map(drop),
            Some(b'n') => self.word("null"),
            Some(b'[') => {
                self.at += 1;
                let mut first = true;
                while self.has_next(b']', std::mem::take(&mut first))? {
                    self.skip(depth + 1)?;
                }
                Ok(())
            }
            Some(b'{') => {
                self.at += 1;
                let mut first = true;
                while self.has_next(b'}', std::mem::take(&mut first))? {
                    self.string()?;
                    self.expect(b':')?;
                    self.skip(depth + 1)?;
                }
                Ok(())
            }
            _ => self.number().map(drop),
        }
    }

    pub(super) fn malformed(&self) -> DecodeError {
        DecodeError::new(match self.bytes.len() {
            length if self.at >= length => "the JSON ends too early".to_owned(),
            _ => format!("the JSON is malformed at byte {}", self.at),
        })
    }
}

pub(super) fn too_deep() -> DecodeError {
    DecodeError::new(format!("the value is more than {MAX_DEPTH} levels deep"))
}
