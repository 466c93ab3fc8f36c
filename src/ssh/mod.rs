//! ssh.
