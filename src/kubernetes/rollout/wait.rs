//! Placeholder, replaced in the next commit.
use std::time::Duration;
/// Limits of a wait.
#[derive(Debug, Clone)]
pub struct RolloutLimits {
    /// For the whole rollout.
    pub timeout: Duration,
    /// How long a pod may be unschedulable before that counts as hopeless. Longer than the old pods take to stop.
    pub unschedulable_grace: Duration,
    /// Restarts of a crashing container before it counts as hopeless.
    pub crash_restarts: u32,
    /// K11: nodes may come, so an unschedulable pod is no reason to stop before the timeout.
    pub scale_from_zero: bool,
}
