//! What the cluster says about a pod: its events and the end of its log. Best effort: a failure that is being told is not
//! replaced by one of telling it.

use std::time::Duration;

use kube::core::Request;
use kube::core::params::ListParams;
use kube::core::subresource::LogParams;

use super::super::cancel::Cancel;
use super::super::connect::Cluster;
use super::wire::{Event, List};

/// Events shown.
const EVENTS: usize = 6;
/// Log lines shown.
const LINES: i64 = 15;
/// Characters of a log line shown.
const LINE_CHARS: usize = 300;
/// For events or a log.
const LIMIT: Duration = Duration::from_secs(10);

impl Cluster {
    /// Events of a pod, oldest first; none when they can't be read.
    pub(super) async fn events(&self, namespace: &str, uid: &str, cancel: &Cancel) -> Vec<Event> {
        let params = ListParams::default()
            .fields(&format!("involvedObject.uid={uid}"))
            .limit(100);
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events")).list(&params);
        let list = tokio::time::timeout(
            LIMIT,
            self.call::<List<Event>>("read events", None, request, cancel),
        )
        .await;
        let mut events = list
            .ok()
            .and_then(Result::ok)
            .map(|list| list.items)
            .unwrap_or_default();
        let time = |event: &Event| {
            event
                .last_timestamp
                .clone()
                .or_else(|| event.event_time.clone())
                .unwrap_or_default()
        };
        events.sort_by_key(time);
        events
    }

    /// The last lines that a container wrote; none when they can't be read.
    pub(super) async fn last_log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        previous: bool,
        cancel: &Cancel,
    ) -> Vec<String> {
        let params = LogParams {
            container: Some(container.to_owned()),
            previous,
            tail_lines: Some(LINES),
            limit_bytes: Some(16 << 10),
            ..LogParams::default()
        };
        let request =
            Request::new(format!("/api/v1/namespaces/{namespace}/pods")).logs(pod, &params);
        let reply =
            tokio::time::timeout(LIMIT, self.send("read a log", None, request, cancel)).await;
        let Some(reply) = reply.ok().and_then(Result::ok) else {
            return Vec::new();
        };
        String::from_utf8_lossy(&reply)
            .lines()
            .map(|line| line.chars().take(LINE_CHARS).collect())
            .collect()
    }
}

/// Whether an autoscaler is bringing a node: the last word of the cluster autoscaler or Karpenter counts.
pub(super) fn is_scaling_up(events: &[Event]) -> bool {
    events
        .iter()
        .rev()
        .find_map(|event| match event.reason.as_str() {
            "TriggeredScaleUp" | "Nominated" => Some(true),
            "NotTriggerScaleUp" => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

/// The last warnings and news, a line each.
pub(super) fn render(events: &[Event]) -> Vec<String> {
    let skipped = events.len().saturating_sub(EVENTS);
    events
        .iter()
        .skip(skipped)
        .map(|event| {
            let mark = if event.kind == "Warning" {
                "Warning "
            } else {
                ""
            };
            format!("{mark}{}: {}", event.reason, event.message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str) -> Event {
        Event {
            reason: reason.into(),
            kind: "Warning".into(),
            message: "m".into(),
            ..Event::default()
        }
    }

    #[test]
    fn the_autoscalers_last_word_counts() {
        assert!(is_scaling_up(&[
            event("FailedScheduling"),
            event("TriggeredScaleUp"),
            event("FailedScheduling")
        ]));
        assert!(!is_scaling_up(&[
            event("TriggeredScaleUp"),
            event("NotTriggerScaleUp")
        ]));
        assert!(!is_scaling_up(&[event("FailedScheduling")]));
    }

    #[test]
    fn only_the_last_events_are_shown() {
        let events: Vec<Event> = (0..20).map(|n| event(&n.to_string())).collect();
        assert_eq!(render(&events).last().unwrap(), "Warning 19: m");
        assert_eq!(render(&events).len(), EVENTS);
    }
}
