//! provider.
