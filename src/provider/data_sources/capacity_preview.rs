//! `data.loomplane_capacity_preview`: what a change would do to a capacity set, without changing anything.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tf_provider_sdk::{
    context::Context,
    data_source::DataSource,
    diagnostic::{Diagnostic, Diagnostics},
    field::Computed,
};

use crate::{
    capacity::{
        arbiter::{
            NoPlan,
            plan::{Action, Plan},
            plan_checked,
            snapshot::Snapshot,
        },
        set::{
            outcome,
            what_if::{self, CLAIM, WhatIf},
        },
    },
    kubernetes::Error,
    provider::{
        cancel::watched,
        client::{Client, Target},
        resources::capacity_set::{
            preview::{LossRow, Preview, look, loss, rights, shown},
            refusal,
        },
    },
};

/// What one more claim, another rank, floor or ceiling, or an emptied node would do to a capacity set: what it would take, and from whom. It changes nothing. Without any of
/// these it is the set's plan as it is.
///
/// Terraform reads it in the plan. Of a connection that is not known then (its cluster is made in the same apply) everything is
/// null, with a warning, until the next refresh. With `depends_on` on what the connection comes from, Terraform reads it at apply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CapacityPreview {
    /// Name of the connection to the cluster.
    pub cluster: String,
    /// Name of the capacity set.
    pub set: String,
    /// One more VM that asks for capacity now, after those that wait already. It is called `what-if` in the plan.
    pub claim: Option<ClaimArgument>,
    /// Other figures of pools, by name. What is left out stays as it is.
    pub pools: Option<BTreeMap<String, Figures>>,
    /// Nodes to empty.
    pub drain_nodes: Option<Vec<String>>,
    /// The plan with all of these.
    pub preview: Computed<Preview>,
    /// Workloads that lose their cards by the change: those that would keep them without it.
    pub loses: Computed<Vec<LossRow>>,
    /// Whether `claim` gets its cards. Null without `claim`.
    pub starts: Computed<bool>,
    /// Where and after whom `claim` starts, or why it waits. Null without `claim`.
    pub answer: Computed<String>,
}

/// A VM that asks for capacity.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClaimArgument {
    /// Its pool: one of on-demand or spot VMs.
    pub pool: String,
    /// GPUs: 1 on `pcie`; 1, 2, 4 or 8 on `nvswitch`.
    #[schemars(range(min = 1, max = 8))]
    pub gpus: i64,
}

/// Other figures of a pool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Rank.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rank: Option<i64>,
    /// Floor, in GPUs.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: Option<i64>,
    /// Ceiling, in GPUs.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub ceiling: Option<i64>,
}

impl DataSource for CapacityPreview {
    const TYPE: &'static str = "loomplane_capacity_preview";
    type Client = Client;

    async fn read(mut self, cx: &Context<'_, Client>) -> Result<Self, Diagnostics> {
        let target = match cx.client.target(&self.cluster) {
            Target::Cluster(target) => target,
            Target::Missing => return Err(cx.client.missing("cluster", &self.cluster).into()),
            Target::Server(_) => {
                let detail = format!(
                    "{} is an own server, and capacity sets are on clusters.",
                    self.cluster
                );
                return Err(Diagnostic::error("Not a cluster", detail)
                    .at("cluster")
                    .into());
            }
            Target::Unknown(_) => {
                super::warn_of_connection(cx);
                self.preview = Computed::null();
                self.loses = Computed::null();
                self.starts = Computed::null();
                self.answer = Computed::null();
                return Ok(self);
            }
        };
        let watched = watched(cx);
        let cancel = &watched.cancel;
        let Some(found) = target.cluster.capacity_set(&self.set, cancel).await? else {
            let sets = target.cluster.capacity_sets(cancel).await?;
            let names: Vec<_> = sets.iter().map(|it| it.set.name.as_str()).collect();
            let there = if names.is_empty() {
                "It has none.".to_owned()
            } else {
                format!("Its sets are {}.", names.join(", "))
            };
            let detail = format!(
                "Cluster {} has no CapacitySet {:?}. {there}",
                target.name, self.set
            );
            return Err(Diagnostic::error("There is no such capacity set", detail)
                .at("set")
                .into());
        };
        let looked = match look(&target.cluster, &found.definition, cancel).await {
            Ok(looked) => looked,
            Err(error @ Error::Forbidden { .. }) => {
                return Err(
                    Diagnostic::error("Can't see who would lose capacity", rights(&error)).into(),
                );
            }
            Err(error) => return Err(error.into()),
        };
        let snapshot = &looked.assembled.snapshot;
        let plan = looked.plan.as_ref().map_err(|why| {
            Diagnostic::error("This capacity set can't be planned on", why.to_string()).at("set")
        })?;
        let changed = self
            .what_if()
            .apply(snapshot)
            .map_err(|problem| self.at(refusal(&problem)))?;
        let changed_plan = plan_checked(&changed).map_err(|why| self.no_plan(&why))?;
        let without: BTreeSet<String> = outcome::losses(snapshot, plan)
            .into_iter()
            .map(|loss| loss.claim)
            .collect();
        let losses = outcome::losses(&changed, &changed_plan).into_iter();
        let new: Vec<LossRow> = losses
            .filter(|loss| !without.contains(&loss.claim))
            .map(loss)
            .collect();
        (self.starts, self.answer) = self.answer(&changed, &changed_plan);
        self.preview = shown(&changed, &changed_plan, &looked.assembled.notes).into();
        self.loses = new.into();
        Ok(self)
    }
}

impl CapacityPreview {
    fn what_if(&self) -> WhatIf {
        // The schema keeps figures within what fits.
        let count = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        WhatIf {
            claim: self
                .claim
                .as_ref()
                .map(|claim| (claim.pool.clone(), count(claim.gpus))),
            pools: self
                .pools
                .iter()
                .flatten()
                .map(|(name, figures)| {
                    let figures = what_if::Figures {
                        rank: figures.rank.map(count),
                        floor: figures.floor.map(count),
                        ceiling: figures.ceiling.map(count),
                    };
                    (name.clone(), figures)
                })
                .collect(),
            drain: self.drain_nodes.iter().flatten().cloned().collect(),
        }
    }

    /// A refusal of a set, on the argument of the what-if that it is about.
    fn at(&self, refusal: Diagnostic) -> Diagnostic {
        let path = match refusal.path.to_string() {
            path if path.starts_with("nodes") => "drain_nodes",
            _ if self.pools.is_some() => "pools",
            _ => "claim",
        };
        Diagnostic {
            summary: "This what-if can't be".to_owned(),
            ..refusal
        }
        .at(path)
    }

    fn no_plan(&self, why: &NoPlan) -> Diagnostics {
        match why {
            NoPlan::Invalid(invalid) => {
                let mut report = Diagnostics::none();
                for problem in &invalid.problems {
                    report.push(self.at(refusal(problem)));
                }
                report
            }
            NoPlan::Unsound(_) => {
                Diagnostic::error("There is no plan to show", why.to_string()).into()
            }
        }
    }

    fn answer(&self, snapshot: &Snapshot, plan: &Plan) -> (Computed<bool>, Computed<String>) {
        if self.claim.is_none() {
            return (Computed::null(), Computed::null());
        }
        let start = plan.actions.iter().find_map(|action| match action {
            Action::Start {
                claim,
                node,
                cards,
                after,
            } if claim == CLAIM => Some((node, cards, after)),
            _ => None,
        });
        if let Some((node, cards, after)) = start {
            let after = if after.is_empty() {
                "now".to_owned()
            } else {
                format!("after {}", after.join(", "))
            };
            let text = format!(
                "starts on {node}, cards {}, {after}",
                outcome::numbers(cards)
            );
            return (true.into(), text.into());
        }
        let wait = plan.waiting.iter().find(|wait| wait.claim == CLAIM);
        let text = wait.map_or_else(
            || format!("is not in the plan of set {}", snapshot.set.name),
            |wait| format!("waits: {}", wait.message),
        );
        (false.into(), text.into())
    }
}
