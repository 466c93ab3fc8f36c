//! The Docker Engine of a server, through its own API over the SSH connection.
//!
//! Here: the way to the socket ([`transport`]), why it can't be used ([`diagnose`]), images ([`image`]), what a container shall be
//! ([`spec`]), that as Docker's configuration ([`body`]) and back ([`observed`]). Not here: which cards a container gets, and in what
//! order containers are made and removed (`service`).

pub(crate) mod body;
pub(crate) mod diagnose;
pub(crate) mod engine;
pub(crate) mod image;
pub mod observed;
pub mod spec;
pub(crate) mod transport;
