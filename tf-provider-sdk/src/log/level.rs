//! Which events are wanted.

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};

/// Target of this crate's own events.
const SDK: &str = "tf_provider_sdk";

/// Levels by where an event comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Prefix of the targets of the provider's own events.
    target: String,
    provider: LevelFilter,
    sdk: LevelFilter,
    others: LevelFilter,
}

impl Wanted {
    /// Reads the variables of the Go SDKs: `TF_LOG_PROVIDER_<NAME>` before `TF_LOG_PROVIDER` before `TF_LOG`; `TF_LOG_SDK` for this crate.
    pub(crate) fn from_environment(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let target = name.to_lowercase().replace('-', "_");
        let read = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(|value| level(&value))
        };
        let provider = read(&format!("TF_LOG_PROVIDER_{}", target.to_uppercase()))
            .or_else(|| read("TF_LOG_PROVIDER"))
            .or_else(|| read("TF_LOG"))
            .unwrap_or(LevelFilter::OFF);
        let sdk = read("TF_LOG_SDK").unwrap_or(provider);
        Self {
            target,
            provider,
            sdk,
            others: provider.min(LevelFilter::WARN),
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.most() == LevelFilter::OFF
    }

    /// The most verbose of the levels.
    pub(crate) fn most(&self) -> LevelFilter {
        self.provider.max(self.sdk)
    }

    pub(crate) fn wants(&self, event: &Metadata<'_>) -> bool {
        *event.level() <= self.of(event.target())
    }

    fn of(&self, target: &str) -> LevelFilter {
        if target.starts_with(SDK) {
            self.sdk
        } else if target.starts_with(&self.target) {
            self.provider
        } else {
            self.others
        }
    }
}

/// As Terraform reads it: any case, `JSON` is trace, and so is what it doesn't know.
fn level(text: &str) -> LevelFilter {
    match text.to_uppercase().as_str() {
        "OFF" => LevelFilter::OFF,
        "ERROR" => LevelFilter::ERROR,
        "WARN" => LevelFilter::WARN,
        "INFO" => LevelFilter::INFO,
        "DEBUG" => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// hclog's name of a level.
pub(crate) fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(variables: &[(&str, &str)]) -> Wanted {
        Wanted::from_environment("loom-plane", &|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_wanted_unless_asked_for() {
        assert!(wanted(&[]).is_off());
        assert!(wanted(&[("TF_LOG", "")]).is_off());
        assert!(wanted(&[("TF_LOG", "off"), ("TF_LOG_CORE", "TRACE")]).is_off());
        assert!(wanted(&[("TF_LOG", "trace"), ("TF_LOG_PROVIDER", "OFF")]).is_off());
    }

    #[test]
    fn the_more_special_variable_wins() {
        let all = [
            ("TF_LOG", "ERROR"),
            ("TF_LOG_PROVIDER", "info"),
            ("TF_LOG_PROVIDER_LOOM_PLANE", "debug"),
            ("TF_LOG_SDK", "warn"),
        ];
        let levels = |from: usize, to: usize| {
            let wanted = wanted(&all[from..to]);
            [
                wanted.of("loom_plane::fit"),
                wanted.of("tf_provider_sdk::serve"),
                wanted.of("hyper::proto"),
            ]
        };
        assert_eq!(levels(0, 1), [LevelFilter::ERROR; 3]);
        assert_eq!(
            levels(0, 2),
            [LevelFilter::INFO, LevelFilter::INFO, LevelFilter::WARN]
        );
        assert_eq!(
            levels(0, 3),
            [LevelFilter::DEBUG, LevelFilter::DEBUG, LevelFilter::WARN]
        );
        assert_eq!(
            levels(0, 4),
            [LevelFilter::DEBUG, LevelFilter::WARN, LevelFilter::WARN]
        );
        assert_eq!(wanted(&[("TF_LOG", "json")]).provider, LevelFilter::TRACE);
    }

    #[test]
    fn other_crates_never_log_below_warnings() {
        assert_eq!(
            wanted(&[("TF_LOG", "TRACE")]).of("h2::codec"),
            LevelFilter::WARN
        );
    }
}
