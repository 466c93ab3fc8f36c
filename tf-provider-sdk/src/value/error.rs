//! What went wrong with a value, and where in it.

use std::fmt;

use crate::path::{Path, Step};

macro_rules! located {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            /// Where in the value.
            pub path: Path,
            /// What is wrong there, in words for whoever wrote the configuration.
            pub message: String,
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl $name {
            pub(crate) fn new(message: impl Into<String>) -> Self {
                $name { path: Path::root(), message: message.into(), $($field: <$ty>::default(),)* }
            }
            /// The same error, seen from one level up.
            pub(crate) fn under(mut self, step: Step) -> Self {
                self.path.0.insert(0, step);
                self
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.path.is_root() {
                    f.write_str(&self.message)
                } else {
                    write!(f, "{}: {}", self.path, self.message)
                }
            }
        }

        impl std::error::Error for $name {}
    };
}

located!(
    /// Bytes that are not a value of the type that was asked for.
    DecodeError {}
);
located!(
    /// A value that is not of the type that it is to be written as.
    EncodeError {}
);
located!(
    /// A value that does not fit the Rust type that it is read into.
    FromValueError {
        /// Whether a value that is not known yet met a type that only takes known ones.
        unknown: bool
    }
);
located!(
    /// Something of a Rust type that has no form as a value.
    ToValueError {}
);
