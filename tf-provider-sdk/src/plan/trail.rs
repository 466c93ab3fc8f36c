//! A path on the way down: borrowed, and made into a [`Path`] only where there is something to say about it.

use crate::path::{Path, Step};

#[derive(Clone, Copy)]
pub(super) enum Trail<'a> {
    Root,
    Attribute(&'a Trail<'a>, &'a str),
    Key(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    pub(super) fn to_path(self) -> Path {
        match self {
            Trail::Root => Path::root(),
            Trail::Attribute(up, name) => up.to_path().then(Step::Attribute(name.into())),
            Trail::Key(up, key) => up.to_path().then(Step::Key(key.into())),
            Trail::Index(up, index) => up.to_path().then(Step::Index(index)),
        }
    }
}
