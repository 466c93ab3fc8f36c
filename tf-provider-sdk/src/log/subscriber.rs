//! The `tracing` subscriber: spans give their fields to the events inside them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

use super::level::Wanted;
use super::line::{Value, render};

thread_local! {
    /// The spans that this thread is in, innermost last.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The field in which `tracing` macros put their text.
const MESSAGE: &str = "message";

struct Span {
    parent: Option<u64>,
    handles: usize,
    fields: Vec<(String, Value)>,
}

/// Writes each wanted event as one line.
pub(crate) struct Hclog<W> {
    wanted: Wanted,
    write: W,
    next: AtomicU64,
    spans: Mutex<BTreeMap<u64, Span>>,
}

impl<W: Fn(&str) + Send + Sync + 'static> Hclog<W> {
    pub(crate) fn new(wanted: Wanted, write: W) -> Self {
        Self {
            wanted,
            write,
            next: AtomicU64::new(1),
            spans: Mutex::default(),
        }
    }

    fn spans(&self) -> MutexGuard<'_, BTreeMap<u64, Span>> {
        // A thread that panicked while it held the map left it whole: each change is one insert, push or removal.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fields of a span and those around it, outermost first.
    fn inherited(&self, innermost: Option<u64>) -> Vec<(String, Value)> {
        let spans = self.spans();
        let mut chain = Vec::new();
        let mut next = innermost;
        while let Some(span) = next.and_then(|id| spans.get(&id)) {
            chain.push(span);
            next = span.parent;
        }
        chain
            .iter()
            .rev()
            .flat_map(|span| span.fields.iter().cloned())
            .collect()
    }
}

impl<W: Fn(&str) + Send + Sync + 'static> Subscriber for Hclog<W> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.wanted.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.wanted.most())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if attributes.is_contextual() => innermost(),
            None => None,
        };
        let mut collected = Collected::default();
        attributes.record(&mut collected);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut spans = self.spans();
        if let Some(parent) = parent.and_then(|parent| spans.get_mut(&parent)) {
            parent.handles += 1;
        }
        spans.insert(
            id,
            Span {
                parent,
                handles: 1,
                fields: collected.fields,
            },
        );
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut collected = Collected::default();
        values.record(&mut collected);
        if let Some(span) = self.spans().get_mut(&span.into_u64()) {
            span.fields.extend(collected.fields);
        }
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let span = match event.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if event.is_contextual() => innermost(),
            None => None,
        };
        let mut collected = Collected {
            fields: self.inherited(span),
            message: String::new(),
        };
        event.record(&mut collected);
        let at = event.metadata();
        (self.write)(&render(
            SystemTime::now(),
            *at.level(),
            at.target(),
            &collected.message,
            &collected.fields,
        ));
    }

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            // Not always the last: guards may be dropped out of order.
            if let Some(at) = entered.iter().rposition(|id| *id == span.into_u64()) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let mut closed = false;
        let mut next = Some(id.into_u64());
        // A span that goes gives up its hold of the span around it.
        while let Some(id) = next.take() {
            let Some(span) = spans.get_mut(&id) else {
                break;
            };
            span.handles -= 1;
            if span.handles == 0 {
                next = spans.remove(&id).and_then(|span| span.parent);
                closed = true;
            }
        }
        closed
    }
}

fn innermost() -> Option<u64> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

#[derive(Default)]
struct Collected {
    fields: Vec<(String, Value)>,
    message: String,
}

impl Collected {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            (MESSAGE, Value::Text(text) | Value::Bare(text)) => self.message = text,
            (name, value) => self.fields.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Collected {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Bare(value.to_string()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add(field, Value::Text(super::chain(value)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use tracing::{debug, error, info, info_span, trace};

    use super::*;

    /// What is logged at `level` while `work` runs, without the timestamps.
    fn logged(level: &'static str, work: impl FnOnce()) -> Vec<Json> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let wanted = Wanted::from_environment("loomplane", &|name| {
            (name == "TF_LOG").then(|| level.to_owned())
        });
        let subscriber = Hclog::new(wanted, move |line: &str| {
            sink.lock().expect("lines").push(line.to_owned())
        });
        tracing::subscriber::with_default(subscriber, work);
        let lines = lines.lock().expect("lines");
        let parse = |line: &String| {
            let mut line: Json = serde_json::from_str(line).expect("JSON");
            line.as_object_mut()
                .expect("object")
                .remove("@timestamp")
                .expect("a time");
            line
        };
        lines.iter().map(parse).collect()
    }

    #[test]
    fn events_carry_their_fields_and_those_of_the_spans_around_them() {
        let lines = logged("INFO", || {
            let outer = info_span!(
                "rpc",
                tf_rpc = "ReadResource",
                tf_req_id = 7,
                late = tracing::field::Empty
            );
            outer.record("late", "now");
            outer.in_scope(|| {
                let _inner = info_span!("inner", tf_req_id = 8).entered();
                info!(target: "loomplane::fit", ok = true, "looked at {}", "gpu");
            });
            let cause = std::io::Error::other("inner cause");
            error!(target: "loomplane", parent: None, error = &cause as &dyn Error, "after");
        });
        assert_eq!(
            lines,
            [
                json!({"@level": "info", "@message": "looked at gpu", "@module": "loomplane.fit",
                    "tf_rpc": "ReadResource", "tf_req_id": 8, "late": "now", "ok": true}),
                json!({"@level": "error", "@message": "after", "@module": "loomplane", "error": "inner cause"}),
            ]
        );
    }

    #[test]
    fn only_wanted_events_are_written() {
        let lines = logged("DEBUG", || {
            debug!(target: "loomplane", "own");
            trace!(target: "loomplane", "too verbose");
            info!(target: "hyper", "of another crate");
            error!(target: "hyper", "failed");
        });
        let messages: Vec<_> = lines
            .iter()
            .map(|line| line["@message"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(messages, ["own", "failed"]);
    }

    #[test]
    fn closed_spans_are_forgotten_with_the_spans_around_them() {
        let wanted = Wanted::from_environment("loomplane", &|_| Some("TRACE".to_owned()));
        let subscriber = Arc::new(Hclog::new(wanted, |_: &str| {}));
        tracing::subscriber::with_default(subscriber.clone(), || {
            let outer = info_span!("outer");
            let inner = outer.in_scope(|| info_span!("inner"));
            drop(outer);
            assert_eq!(
                subscriber.spans().len(),
                2,
                "the inner span holds the outer one"
            );
            drop(inner);
        });
        assert_eq!(subscriber.spans().len(), 0);
    }
}
