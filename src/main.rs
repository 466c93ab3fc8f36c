//! Loomplane.
fn main() {}
