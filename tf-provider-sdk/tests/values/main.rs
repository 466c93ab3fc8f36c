//! Values against Terraform's own: the golden vectors of go-cty, and laws that hold for any type and value.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod go;
mod golden;
mod properties;
mod speed;
