//! A path on the way down: borrowed, and made into a [`Path`] only where there is something to say about it.

use super::{Path, Step};

#[derive(Clone, Copy)]
pub(crate) enum Trail<'a> {
    Root,
    Attribute(&'a Trail<'a>, &'a str),
    Key(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    pub(crate) fn to_path(self) -> Path {
        match self {
            Trail::Root => Path::root(),
            Trail::Attribute(up, name) => up.to_path().then(Step::Attribute(name.into())),
            Trail::Key(up, key) => up.to_path().then(Step::Key(key.into())),
            Trail::Index(up, index) => up.to_path().then(Step::Index(index)),
        }
    }
}
