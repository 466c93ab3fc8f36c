//! Waiting for a rollout: watched, not polled, and ended early by what can never succeed.

mod judge;
mod wait;
mod wire;

pub use judge::RolloutFailure;
pub use wait::RolloutLimits;
