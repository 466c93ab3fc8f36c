//! Capacity sets: who gets which cards when there are not enough.
//!
//! [`snapshot`] is what is known, [`plan`] decides, [`check`] judges any plan without knowing how it was made, [`explain`] puts reasons into words.
//! Pure, like the rest of `capacity`: the plan preview, the arbiter and `capacity plan --snapshot` all call [`run`] or [`plan_checked`].

pub mod check;
pub mod explain;
pub mod plan;
pub mod snapshot;

use self::check::{Violation, check};
use self::plan::{Plan, plan};
use self::snapshot::{Invalid, Snapshot, parse, validate};

/// Why there is no plan to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// The snapshot can't be planned on: exit status 2.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The plan broke a rule, which is a fault of ours: nothing is shown, nothing is done. Exit status 1.
    #[error("the plan that was made breaks the rules of capacity sets and is not shown; please report this with the snapshot:\n  {}",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  "))]
    Unsound(Vec<Violation>),
}

impl NoPlan {
    /// The exit status of a command that ends with this.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::Invalid(_) => 2,
            Self::Unsound(_) => 1,
        }
    }
}

/// Plans on a snapshot from an adapter, and has the plan judged before anyone sees it.
///
/// # Errors
/// The snapshot is not valid, or the plan is not sound.
pub fn plan_checked(snapshot: &Snapshot) -> Result<Plan, NoPlan> {
    validate(snapshot)?;
    let plan = plan(snapshot);
    let violations = check(snapshot, &plan);
    if violations.is_empty() {
        Ok(plan)
    } else {
        Err(NoPlan::Unsound(violations))
    }
}

/// `capacity plan --snapshot`: a snapshot as JSON in, the plan as JSON out, the same bytes for the same snapshot.
///
/// # Errors
/// The snapshot is not valid, or the plan is not sound.
pub fn run(snapshot_json: &str) -> Result<String, NoPlan> {
    Ok(plan_checked(&parse(snapshot_json)?)?.to_json())
}

#[cfg(test)]
mod tests;
