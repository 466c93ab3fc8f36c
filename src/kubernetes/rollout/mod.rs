//! Waiting for a rollout: watched, not polled, and ended early by what can never succeed.

mod evidence;
mod judge;
mod wait;
mod watch;
mod wire;

pub use judge::RolloutFailure;
pub use wait::RolloutLimits;
