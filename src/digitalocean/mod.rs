//! digitalocean.
