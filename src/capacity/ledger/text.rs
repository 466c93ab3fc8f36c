//! What users read about cards that are held.

use super::{CardFit, Holder, OtherCards, Shortage};
use crate::capacity::gpu::GpuRequest;
use crate::capacity::text::{Text, gpus};

impl Holder {
    /// `container trainer (not started by Loomplane)`, `service chat`.
    #[must_use]
    pub fn render(&self) -> String {
        match &self.service {
            Some(service) => format!("service {service}"),
            None => format!("container {} (not started by Loomplane)", self.container),
        }
    }
}

impl Shortage {
    /// The refusal, for the server named `server`.
    #[must_use]
    pub fn render(&self, server: &str) -> Text {
        let summary = format!("{server} can't meet this GPU request");
        if let Some(why) = &self.server {
            return Text {
                summary,
                detail: format!("Asked for {} on {server}. {}", self.request, why.render()),
            };
        }
        let kind = self.request.kind;
        let mut detail = match self.usable {
            0 => format!(
                "Asked for {} on {server}, which has no usable {kind}",
                self.request
            ),
            all => format!(
                "Asked for {} on {server}, which has {all} usable {kind}, {} free",
                self.request, self.free
            ),
        };
        detail.push_str(if self.others.is_empty() && self.holders.is_empty() {
            ".\n"
        } else {
            ":\n"
        });
        for (holder, count) in &self.holders {
            let state = if holder.state == super::ContainerState::Running {
                String::new()
            } else {
                format!(" ({})", format!("{:?}", holder.state).to_lowercase())
            };
            detail.push_str(&format!(
                "  {} held by {}{state}\n",
                gpus(u64::from(*count)),
                holder.render()
            ));
        }
        for other in &self.others {
            detail.push_str(&other.render());
        }
        if let Some(budget) = self.budget {
            detail.push_str(&format!(
                "  the pool's budget here is {}, {} of it handed out\n",
                gpus(u64::from(budget.gpus)),
                budget.handed_out
            ));
        }
        detail.push_str(&self.advice());
        Text { summary, detail }
    }

    fn advice(&self) -> String {
        let wanted = u32::from(self.request.count.get());
        let budget_short = self.budget.is_some_and(|budget| budget.left() < wanted);
        if self.free >= wanted && budget_short {
            "Raise the pool's gpu_budget for this server, or let a service of the pool go."
                .to_owned()
        } else if self.usable >= wanted {
            "Stop or remove what holds them, or use a target with free GPUs: data.loomplane_gpu_targets lists them.".to_owned()
        } else if self.usable > 0 {
            format!(
                "Ask for count = {} at most, or use a target with {}: data.loomplane_gpu_targets lists them.",
                self.usable,
                gpus(u64::from(wanted))
            )
        } else {
            format!(
                "Ask for a kind that it has, or use a target with {}: data.loomplane_gpu_targets lists them.",
                self.request.kind
            )
        }
    }
}

impl OtherCards {
    fn render(&self) -> String {
        match &self.why {
            Some(why) => format!(
                "  {} can't be used, {}: {}\n",
                gpus(u64::from(self.count)),
                self.name,
                why.render(&self.name)
            ),
            None => format!(
                "  {} of another kind: {}\n",
                gpus(u64::from(self.count)),
                self.name
            ),
        }
    }
}

impl CardFit {
    /// The warning of a plan that is not refused; none when there is nothing to say.
    #[must_use]
    pub fn render_warning(&self, server: &str, request: GpuRequest) -> Option<Text> {
        match self {
            Self::Fits { used_outside: 0 } | Self::TooFew(_) => None,
            Self::Fits { used_outside } => Some(Text {
                summary: format!("Processes outside containers use GPUs of {server}"),
                detail: format!(
                    "Asked for {request} on {server}. Of the free ones, {} would be in use by a process outside containers, which Loomplane neither counts nor stops. Such cards are handed out last.",
                    gpus(u64::from(*used_outside))
                ),
            }),
            Self::FitsOnce { holders } => {
                let lines: Vec<String> = holders
                    .iter()
                    .map(|(holder, count)| {
                        let who = holder.render();
                        format!(
                            "  {} held by {who}; free once {who} is removed",
                            gpus(u64::from(*count))
                        )
                    })
                    .collect();
                Some(Text {
                    summary: format!("The GPUs of {server} are held now"),
                    detail: format!(
                        "Asked for {request} on {server}. Not enough are free now:\n{}\nApply waits for them, then fails naming who holds them.",
                        lines.join("\n")
                    ),
                })
            }
        }
    }
}
